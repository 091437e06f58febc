-- shop_event has every event that was handled. A row is needed as long as its event may be repeated.
CREATE TABLE IF NOT EXISTS shop_event (
    source     VARCHAR(100) NOT NULL,
    event_id   VARCHAR(100) NOT NULL,
    handled_at DATETIME(6)  NOT NULL,
    PRIMARY KEY (source, event_id)
) ENGINE=InnoDB DEFAULT CHARSET=ascii COLLATE=ascii_bin;

-- shop_coupon has what the shop knows about a coupon of a user. sequence, changed_at and last_event_id are of the event that
-- led to the state. events: how many were handled, also those that came too late to change the state.
CREATE TABLE IF NOT EXISTS shop_coupon (
    source        VARCHAR(100) NOT NULL,
    subject       VARCHAR(100) NOT NULL,
    sequence      INT          NOT NULL,
    state         VARCHAR(20)  NOT NULL,
    changed_at    DATETIME(6)  NOT NULL,
    last_event_id VARCHAR(100) NOT NULL,
    events        INT UNSIGNED NOT NULL,
    PRIMARY KEY (source, subject)
) ENGINE=InnoDB DEFAULT CHARSET=ascii COLLATE=ascii_bin
