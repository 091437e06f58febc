// <jajeong-coupon coupon="42"> counts down to the opening by the clock of the servers, applies at a press, and shows what becomes
// of the application. docs/integrate.md says how a page uses it. The servers send neither indentation nor lines such as these.
(() => {
const api = new URL('.', document.currentScript.src)
// Texts in both languages, by state.
const texts = {
  language: ['ko', 'en'],
  apply: ['쿠폰 신청하기', 'Apply for the coupon'],
  place: ['대기 순번 {}번', 'Number {} in line'],
  days: ['일 ', ' d '],
  delayed: [' 확인이 지연되고 있습니다.', ' This takes longer than usual.'],
  UPCOMING: ['{}에 신청이 시작됩니다.', 'Opens on {}.'],
  OPEN: ['지금 신청하실 수 있습니다.', 'Apply now.'],
  PAUSED: ['신청이 일시 중단되었습니다.', 'Applications are paused.'],
  SOLD_OUT: ['쿠폰이 모두 소진되었습니다.', 'Sold out.'],
  CLOSED: ['신청이 마감되었습니다.', 'Applications are closed.'],
  APPLYING: ['신청하고 있습니다.', 'Applying. One moment, please.'],
  PENDING: ['신청이 접수되었습니다. 결과는 이 화면에 표시됩니다.', 'You have applied. The outcome will appear here.'],
  UNDER_REVIEW: ['신청 내용을 확인하고 있습니다.', 'Checking your application.'],
  ISSUED: ['쿠폰이 발급되었습니다.', 'You got the coupon.'],
  NOT_SELECTED: ['이번에는 쿠폰을 받지 못하셨습니다.', 'You did not get the coupon.'],
  REJECTED: ['쿠폰을 발급해 드릴 수 없습니다. 고객센터에 문의해 주세요.', 'You cannot get the coupon. Please contact us.'],
  UNKNOWN: ['신청 상태를 확인하고 있습니다.', 'One moment, please.'],
  UNAUTHENTICATED: ['로그인하시면 신청하실 수 있습니다.', 'Sign in to apply.'],
}
// Pauses are jittered, so that not every page returns at the same instant.
const jittered = ms => ms * (1 + Math.random()) / 2

customElements.define('jajeong-coupon', class extends HTMLElement {
  // details (of the coupon), application and problem are the last answers. ahead is how far the clock of the servers is ahead of the
  // device's, in milliseconds, wait for how long the last answer asks to wait, failures how often in a row something failed. known
  // says whether this turn has asked for the application, pressed whether the user wants one. cut ends what the present turn waits
  // for: a turn whose cut was replaced by that of another turn never goes on.

  get left() { return Date.parse(this.details?.opensAt) + 1 - Date.now() - this.ahead }
  get applied() { return this.application && this.application.status != 'UNKNOWN' }
  get english() { return +this.matches(':lang(en)') }
  get over() { return /ISSUED|NOT_S|REJ/.test(this.application?.status) }

  connectedCallback() {
    this.replaceChildren(...['p', 'button', 'output'].map(name => document.createElement(name)))
    this.path = 'coupons/' + this.getAttribute('coupon')
    const button = this.children[1]
    button.type = 'button'
    button.onclick = () => {
      if (!this.ready) return
      this.pressed = true
      this.refresh()
    }
    addEventListener('visibilitychange', this)
    addEventListener('online', this)
    this.refresh()
  }

  disconnectedCallback() {
    removeEventListener('visibilitychange', this)
    removeEventListener('online', this)
    this.refresh()
  }

  // The page is hidden or shown again, or the device has slept or is online again. Hiding interrupts no application.
  handleEvent() {
    this.over || this.pressed && document.hidden || this.refresh()
  }

  // Begins a turn, which ends the present one: it asks, waits and asks again until the outcome. A hidden page asks nothing.
  async refresh() {
    this.cut?.abort()
    this.known = this.failures = 0
    this.cut = null
    while (this.isConnected && (this.pressed || !document.hidden)) {
      this.draw()
      const pause = await (this.pressed ? this.apply() : this.look())
      this.draw()
      if (this.over) return
      this.failures = pause ? 0 : this.failures + 1
      const cut = this.cut = new AbortController
      await new Promise(done => setTimeout(() => cut == this.cut && done(), pause || this.wait + jittered(Math.min(3e4, 1e3 * 2 ** this.failures))))
    }
  }

  // Returns the members of an answer, or of the last event of a stream. Without any, the status is that of HTTP, or 0. So it is in
  // refusals: a gateway may send JSON with a status of its own. What tells of the application is shown at once. Silence for 20 to
  // 40 s ends it: streams have a comment every 15 s.
  async ask(path, method) {
    const answer = { status: 0 }, cut = this.cut = new AbortController
    let text = '', part = {}, silent = 0
    const timer = setInterval(() => silent++ && cut.abort(), 2e4)
    this.wait = 0
    try {
      const headers = { 'Accept-Language': texts.language[this.english], ...await this.headers?.() }
      const response = await fetch(api + path, { method, headers, credentials: 'include', signal: cut.signal })
      answer.status = response.status
      this.wait = response.headers.get('Retry-After') * 1e3 || 0
      const reader = response.body.pipeThrough(new TextDecoderStream).getReader()
      while (!part.done) {
        part = await reader.read()
        silent = 0
        const lines = (text + (part.value || '\n')).split('\n')
        text = lines.pop()
        for (const line of lines) {
          const said = JSON.parse(line.match(/{.*/) || '{}')
          Object.assign(answer, said)
          if (!response.ok) answer.status = response.status
          if (said.userId && cut == this.cut) this.learn(said)
        }
      }
    } catch {}
    clearInterval(timer)
    return cut == this.cut ? answer : new Promise(() => {})
  }

  // Asks what is not known. Returns for how long to wait then, in milliseconds; nothing if something failed.
  async look() {
    if (!this.known) {
      const me = await this.ask(this.path + '/applications/me')
      if (me.status > 399 && me.status < 429) {
        this.known = true
        this.application = 0
        this.problem = (me.mayBeLost || me.code != 'NOT_APPLIED') && me
      } else if (!me.userId) this.learn({ status: 'UNKNOWN' })
    }
    if (this.over) return
    if (this.applied) {
      const { userId } = await this.ask(`live/${this.path}/me`)
      this.known = false
      return userId && jittered(8e3)
    }
    const answer = await this.ask(this.path)
    if (!answer.opensAt) return this.known = 0
    this.details = answer
    this.draw()
    // Of five answers the one with the shortest trip tells the time best: it is half a trip old.
    for (let i = 0, best = 1e9; i < 5 && !(Math.abs(this.left) > 6e4); i++) {
      const sent = Date.now(), { serverTime } = await this.ask(this.path + '/time'), trip = Date.now() - sent
      if (serverTime && trip < best) {
        best = trip
        this.ahead = Date.parse(serverTime) - sent - trip / 2
      }
    }
    return this.known && this.left && jittered(6e4)
  }

  // Applies once. Returns what look returns.
  async apply() {
    const answer = await this.ask(this.path + '/applications', 'POST'), { code, status, userId, opensAt, serverTime } = answer
    if (code == 'NOT_OPEN') {
      Object.assign(this.details, { opensAt, status: 'UPCOMING' })
      this.ahead = Date.parse(serverTime) - Date.now()
      if (this.left < 6e4) return this.left
    } else if ((this.wait || !status || status > 428) && this.wait <= 6e4 && this.failures < 20) return
    this.pressed = false
    this.known = userId
    if (userId) {
      this.application.status = 'PENDING'
      return 1
    }
    this.problem = !opensAt && answer
    return jittered(3e4)
  }

  // Takes over what the servers say of the application. Who has applied keeps the last state while it cannot be looked up.
  learn(application) {
    if (this.applied && application.status == 'UNKNOWN') this.application.delayed = true
    else this.application = application.status != 'NOT_APPLIED' && application
    this.problem = 0
    this.draw()
    if (this.over || !this.applied) this.cut.abort()
  }

  draw() {
    const { application, applied, details, problem, english, left, children: [figure, button, output] } = this
    const status = details?.status, phase = status == 'UPCOMING' && left <= 0 ? 'OPEN' : status || 'UNKNOWN'
    const state = this.pressed ? 'APPLYING' : application ? application.status : problem ? problem.status == 401 ? 'UNAUTHENTICATED' : problem.code || 'UNKNOWN' : phase
    const shown = application?.position || new Date(details?.opensAt)
    const say = name => (this.getAttribute('data-' + name) || texts[name]?.[english] || problem?.detail || say('UNKNOWN')).replace('{}', shown.toLocaleString(texts.language[english]))
    const show = (part, text) => {
      if (part.textContent != text) part.textContent = text
      part.hidden = !text
    }
    const rest = left + 999, days = Math.floor(rest / 864e5)
    show(figure, application?.position ? say('place') : left > 0 && !applied ? (days ? days + say('days') : '') + new Date(rest).toISOString().slice(11, 19) : '')
    show(button, applied ? '' : say('apply'))
    show(output, say(state) + (application?.delayed ? say('delayed') : ''))
    this.ready = phase == 'OPEN' && !applied && !this.pressed && problem?.status != 401
    button.ariaDisabled = !this.ready
    this.setAttribute('state', state)
    this.dispatchEvent(new Event('jajeong'))
    clearTimeout(this.clock)
    if (left > 0 && this.isConnected) this.clock = setTimeout(() => this.draw(), left % 1e3)
  }
})
})()
