"""Values from standards and in common forms, written by hand: what each kind finds, and what not.

They verify the definitions of the kinds, which a comparison with another search does not.
"""

from __future__ import annotations

from collections.abc import Mapping

#: RFC 5322 (appendix A), RFC 3696 (section 3) and RFC 5890; the last ones have combining marks.
EMAILS = (
    "jdoe@machine.example", "john.q.public@example.com", "mary@x.test", "boss@nil.test",
    "customer/department=shipping@example.com", "_somename@example.com", "user+mailbox@example.com",
    '"Abc@def"@example.com', r'"Abc\@def"@example.com', '"Fred Bloggs"@example.com',
    '"dana"@example.com', r'"dana \"d\" levi"@example.com', '"dana@home.example"@example.com',
    "dana@xn--mnchen-3ya.example.xn--p1ai", "dana@m\u00fcnchen.example",
    "dana@mu\u0308nchen.example", "dana@example.cafe\u0301",
    "\u0926\u093e\u0928\u093e@\u0909\u0926\u093e\u0939\u0930\u0923.\u092d\u093e\u0930\u0924",
    "dana@example.\u0c2d\u0c3e\u0c30\u0c24\u0c4d",
)  # fmt: skip
NO_EMAILS = ("jdoe", "@example.com", "dana@localhost", "jdoe@[192.0.2.1]", "a @ b.example", '"@x')

#: RFC 3986, section 1.1.2.
URLS = (
    "ftp://ftp.is.co.za/rfc/rfc1808.txt", "http://www.ietf.org/rfc/rfc2396.txt",
    "ldap://[2001:db8::7]/c=GB?objectClass?one", "telnet://192.0.2.16:80/", "www.example.com",
)  # fmt: skip
NO_URLS = ("urn:oasis:names", "news:comp.infosystems", "example.com", "www.")

#: RFC 5737.
IPV4 = ("192.0.2.1", "198.51.100.7", "203.0.113.255", "127.0.0.1", "0.0.0.0")
NO_IPV4 = ("192.0.2", "256.0.2.1", "192.0.2.256", "1.2.3", "192,0,2,1")

#: RFC 4291, section 2.2.
IPV6 = (
    "ABCD:EF01:2345:6789:ABCD:EF01:2345:6789", "2001:DB8:0:0:8:800:200C:417A",
    "FF01:0:0:0:0:0:0:101", "0:0:0:0:0:0:0:1", "0:0:0:0:0:0:0:0", "2001:DB8::8:800:200C:417A",
    "FF01::101", "::1", "0:0:0:0:0:0:13.1.68.3", "0:0:0:0:0:FFFF:129.144.52.38", "::13.1.68.3",
    "::FFFF:129.144.52.38", "2001:0DB8:0:CD30::",
)  # fmt: skip
NO_IPV6 = ("::", "12:30:45", "std::vector", "std::add", "00:1B:44:11:3A:B7", "1:2:3")

#: The examples of the IBAN registry of ISO 13616, for the shortest and long ones, too.
IBANS = (
    "GB29NWBK60161331926819", "GB29 NWBK 6016 1331 9268 19", "DE89370400440532013000",
    "FR1420041010050500013M02606", "MT84MALT011000012345MTLCAST001S", "NO9386011117947",
    "CH93 0076 2011 6238 5295 7", "SA0380000000608010167519", "BE68539007547034",
    "NL91ABNA0417164300", "IT60X0542811101000000123456", "LC55HEMM000100010012001200023015",
    "de89 3704 0044 0532 0130 00", "DE89\u202f3704\u202f0044\u202f0532\u202f0130\u202f00",
    "DE89\t3704\t0044\t0532\t0130\t00",
)  # fmt: skip
NO_IBANS = ("GB29NWBK60161331926818", "DE89370400440532013001", "DE8937040044", "GB29")

#: Numbers that payment networks publish for tests.
CARDS = (
    "4111111111111111", "4222222222222", "5555555555554444", "378282246310005", "30569309025904",
    "6011111111111117", "3530111333300000", "4111 1111 1111 1111", "5555-5555-5555-4444",
    "4111\u20091111\u20091111\u20091111", "4111\t1111\t1111\t1111",
)  # fmt: skip
NO_CARDS = ("4111111111111112", "79927398713", "4111 1111", "5555.5555.5555.4444")

#: A number that was printed on a card for wallets, and rules of the Social Security Administration.
SSNS = ("078-05-1120", "219 09 9999", "078\u201105\u20111120")
NO_SSNS = ("000-12-3456", "666-12-3456", "123-00-4567", "123-45-0000", "078051120", "078-05 1120")

#: ITU-T E.164 (at most 15 digits) and E.123, DIN 5008, the North American plan, and numbers of
#: Ofcom for drama.
PHONES = (
    "+442079460958", "+123456789012345", "+22 609 123 4567", "(0609) 123 4567",
    "+44 20 7946 0958", "020 7946 0958", "01632 960001", "(020) 7946-0958", "0044 20 7946 0958",
    "06 12 34 56 78", "06.12.34.56.78", "01-23-45-67-89", "06/07/08/09/10", "06 07 08 09 10",
    "+33\u202f6\u202f12\u202f34\u202f56\u202f78", "06\u200912\u200934\u200956\u200978",
    "030\t901820", "030 12345-67", "+49 30 12345-67", "+49 (0)30 901820", "+49 - (0) 30 901820",
    "(0)30 901820", "030/901820-12", "+1 (212) 555-0123", "+1-201-555-0123", "1-800-555-0199",
    "(212) 555-0123", "1(212) 555-0123", "(212).555.0123", "212/555-0123", "212.555.0123",
)  # fmt: skip
NO_PHONES = (
    "911", "555-0123", "+49 30", "+1234567890123456", "901820", "06.12.34", "01/02/2003",
    "1.2.3.4", "A0301234567",
)  # fmt: skip

#: ISO 8601, RFC 9110 (section 5.6.7), ctime, date(1), DIN 1355 and the usual forms of English.
DATES = (
    "2026-11-26", "2026/11/26", "2026.11.26", "26.11.2026", "26. 11. 2026",
    "26.\u00a011.\u00a02026", "26/11/2026", "11/26/2026", "26-11-26", "11/26/26",
    "2026\u201311\u201326", "06 Nov 1994", "06-Nov-94", "26/Nov/2026", "26 November 2026",
    "26\u00a0November\u00a02026", "26. Nov. 2026",
    "26\u2013Nov\u20132026", "1st of May 2026", "November 26, 2026", "Nov. 26th, 2026",
    "November\u202f26,\u202f2026", "Nov-26-2026", "Nov/26/2026", "2026-Nov-26", "2026 November 26",
    "2026 May 1st", "Nov  6 08:49:37 1994", "Nov 26 19:34:12 2026", "Nov 26 20:16:45 UTC 2026",
    "Nov 26 08:16:45 PM CET 2026",
)  # fmt: skip
NO_DATES = (
    "31.13.2026", "2026-13-01", "32.1.2026", "0.5.2026", "20261126", "2026-W48-4", "2026-330",
    "2026-11", "Nov 26", "26 novembre 2026", "1.2.3", "06.12.34.56.78", "01-23-45-67-89",
)  # fmt: skip

#: The values of each kind; each is found as a whole.
FOUND: Mapping[str, tuple[str, ...]] = {
    "email": EMAILS,
    "url": URLS,
    "ipv4": IPV4,
    "ipv6": IPV6,
    "iban": IBANS,
    "card": CARDS,
    "ssn": SSNS,
    "phone": PHONES,
    "date": DATES,
}
NOT_FOUND: Mapping[str, tuple[str, ...]] = {
    "email": NO_EMAILS,
    "url": NO_URLS,
    "ipv4": NO_IPV4,
    "ipv6": NO_IPV6,
    "iban": NO_IBANS,
    "card": NO_CARDS,
    "ssn": NO_SSNS,
    "phone": NO_PHONES,
    "date": NO_DATES,
}
