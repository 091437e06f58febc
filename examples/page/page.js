// The shop's part of the page: which coupon it is, what it is worth, and signing in. /v1/jajeong.js does the rest.
const element = document.querySelector('jajeong-coupon'), form = document.getElementById('sign-in')
const won = amount => `${amount.toLocaleString('ko-KR')}원`

element.setAttribute('coupon', new URLSearchParams(location.search).get('coupon') ?? '1')
element.addEventListener('jajeong', () => {
  form.hidden = element.getAttribute('state') !== 'UNAUTHENTICATED'
  const coupon = element.details
  if (!coupon) return
  const off = coupon.discountPercent ? `${coupon.discountPercent}% 할인, 최대 ${won(coupon.discountMaxWon)}` : `${won(coupon.discountWon)} 할인`
  document.title = document.getElementById('name').textContent = coupon.name
  document.getElementById('discount').textContent = off + (coupon.minimumWon ? ` · ${won(coupon.minimumWon)} 이상 구매 시` : '')
})
form.addEventListener('submit', async event => {
  event.preventDefault()
  await fetch('/sign-in', { method: 'POST', body: new URLSearchParams(new FormData(form)) })
  element.refresh()
})
