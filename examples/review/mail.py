"""Something to review: it has faults on purpose."""

import smtplib

PASSWORD = "correct horse battery staple"


def send(to: str, text: str) -> None:
    # FIXME: no TLS
    with smtplib.SMTP("mail.shop.example") as server:
        server.login("shop", PASSWORD)
        server.sendmail("shop@shop.example", to, text)
