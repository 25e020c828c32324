"""Objects of Arrow that pyarrow 26.0.1 has written: each has five rows, in two batches."""

from __future__ import annotations

import base64
import zlib

STREAM = zlib.decompress(
    base64.b64decode(
        "eNq1Vj1vE0EQnb07O0d0kQ7JQi5cmC4FEikoXFC4ACkFRcqIKgc5YSsksRwHJR1lSipEkSKl+QcpkUjhkoIiJT8h"
        "BUUkhI+Z/YjXD1+ciDDR3t7szLx5O7s3cVEUxVFIlJLIIiVUpQrF/MaiIop4Wv5dFDLf47HCvhcB0TGPNR4NHt8U"
        "0QGPEdvFL2J/Dr5f4/eGXWMz1ez7Vn64J/BP2O+kEF9aqvOjae0MSevWf4FHvjPod/M92mT/DYMdCN+69Rep8HiX"
        "vd3PeR5pH1KClzJKrHESraXWPfX4iISGl449Mzn+4tTxYrZ3+5KKLtn3p/FPah4nRaamMr8SnHFRNMbar4rcZe4O"
        "8m15X2WfZ+PJHn2OgpXxGI7N/tr86I0nuWfVepC90bU+Yb9j41u5Lv+Ifc6M32LqYZKtQTYgrqfckljXVbKJfYnH"
        "8/3+bi9//HK/330ttUr02aoYcaTWm9khPwWlyn9Gnhr/hdSruzvbHmNKwSV3ZHPHllPKuxEcOWM5b3PGqiI1aAOW"
        "vn/dnU3S8bFekWdisWNGiW25Je6cOX0vJnVrANZOtp2bd/OtmPtWhftmzhJr2dUspAaRroHk41TF0J4faV41+0Um"
        "GpGCiNw9M3tYvNqD+4brtkZieWHXA5pISOWS2Dn1eJJ3/4IZMf76waGZZR+d0N/Hg+l9hJHeQ085lGnejwLDwef6"
        "EHKSvQM+7zrYm7CfFahBC/zbgLcG9nXAOQL7B4g/AfsQeH4B+wj4noP9B+BfgP0SdPdyVS81nb8J9mU1nb+lps+6"
        "Bf5t0Fchfh3iy3R3jhuA1wF/p0femn9PFJzv/9KDf4yHbc21z9MrJflCiAntyL5+nopDXLf+ka6XX8W0uLjm2qQP"
        "zOLnBONcbd1QwM3pPeAZluBTSR0U4JXZnb4F+Dftb+mc/hbcsL/F0BcU9BHXD5bhfq6Afwvw2mBfhb7ZAXsP4g/A"
        "/h54fgD7J+A7hHMagv0U7KeAd1f9k+bo2F8T6Kc0R786P7DP0wn+f5f1n7vWUe46/raCv1/UjH4hYtvajX63zOpf"
        "AfSmoKRfBddwVbeoy23Xnc311T/C1/Zs"
    )
)
LZ4_STREAM = zlib.decompress(
    base64.b64decode(
        "eNq1WDtsE0EQnb07J0fiwEVYyIClmE/AQkJJQZGCwgVIbpBcRlQ2xCJWSGI5DnI6iyolFaJI4TJ0lOlJ4dIFBWXK"
        "lCkoIiF8zOzu2XuDz2cnYaO9udl589nZz5zj+76/bwN4QG0GkjAFCXDxDZtwwEGS++P7RK9hX0bsmQVwgL2IPYO9"
        "KwCa2DsoJ5yDeFSeT+F7Ro+hGFL6faOyt0PmnyGu7RMW5tL4yGo5moRVjZ/GXtlq1KuVHVhDfEnZtijetMZTS2D/"
        "UH6/W0HakRgQZM9DK660k5Scp+GeEQ81W8UldY+Vj39iWjd0Nrfr5ArOEftL4ZMpIyYBKqdE35Cdnu9nehI3xWMn"
        "Wm1UNum9gJgXvcEczRjJVhn7YU/NL4+PWm/ge1iuG+V3MtdtxB0obGKU/w5ijhVuxjNsgs5BuQGYT9olrswreSP5"
        "HPaXu/XtWmXp9W69+pZylZRrK1xuh3K9Vt7DJ1mZwj/Vniv8tGfkPVjbGtqkhJNvR/t2dUwezobs0BrTeqs1FgnK"
        "QZ7ZkvuvurUGUt+VI/RMatsuWnF1uknvJ8b0wx/kLcNsbZU3K+pdnRW136bYflNryXNZlVFQDhyZA/KHrvwjvX4g"
        "40rrE5mUFsFy5NoVYNDMeXhSJ4PU6eusat8p7Rf68auYbYhuDzTNaXrbkAlmD3Qepe37r9Kl/EdkW0OhVhiHbKu5"
        "Z8gpD017RB5sR86pZZu+w/NesQbztofM+54xlmY0mHeeja9q+ljTlqZ3NG0z/BGzd8Lk5yy/WRGWr4iwfonJm5pf"
        "DPwz+ZEIx3vC5OfMftZi/hlfZPy65u9r/hOTH1ph/122YboMf8r4YOEC/RzbrFH8guYLdtheieED/q4x5hn7RYTD"
        "+G+8dUl9wc5hnHxcXp9PZFuJiPPNQ4rSt4PcGuOecT/Ypg07jEO2Vf7+9ULxDZ1ilP5yeHweX5c+I3p28bcvoEjX"
        "kj+h/2xxcKXF+k+Hx6/j6xOB6JavW4x+RH4to0fpi5j7Oy5/tVFxRe0HNt9ZfH1K8y3G78e4/RSKOWq+l7XrhnGu"
        "gYvyuwHmN4Qad4xzNFH9O7XGq3/WhPUvuD9X2HiR1bMm+y74wvDfmL0uk59q+ii4e1l9ygl2nzN5UA8fan6fydus"
        "vnXYRddh8jMmP2P2XFafgnoZ5LLA5CUrbH+f1b8ovh8/0+8wfBS/wOopjMkHe9+KqU9XzfN21fqTtiHn1hpx3u0L"
        "3qvWGN/FZtmbNC4Rp5cNj9+Qn0ICWLWb2G9fMUqP3a/08/HmkDIXqT+izo/7e0SMs95R68nip3+X3BpStibdD3DV"
        "+nH7Isj1X6m+bLA="
    )
)
ZSTD_FILE = zlib.decompress(
    base64.b64decode(
        "eNrtWDtsE0EQnd07O0dwpAsEyUgBGUSRLgZRpKBwJCLRYdGAqGKIBRYkWI6DSAcFkstUKAVFStPRIFFaAiGXFBSU"
        "lJQpKCIhfMzs7tl7Y9+d4wSqrLW3NztvZmdmP+O95Tt3bt+9ChBgaTkAPlCZhhxkIQMevmERLrjYLPwJAmpPYS0i"
        "dl8CvMVaxjqP9asAeIG1i3zCuYhH4dk5fJ83fciGOfP+pLq9SeqvI24vICzM5PFRMHxUCfcMfgprdaPZqFU3YQ3x"
        "q1q3JHvzBk8lg/V55elWFduuwoAgfT5q8ZSenKJ8A/cte6g42i4l+1mPMWTTY0tm/VmDhoIDxP7S+NycZZMAHVNq"
        "H5CeXhDM9xQuy22nttasrtP7LcTc7A18tG0kXRWs7Z72r4SPem8w9qhYNyuPVKz3EPdWYzNJ43cR81njpn1LJ5gY"
        "VJqA8aRV4qm40mjEn8G6stV4Vq8u3t9q1B5SrHJqboXH9VCs1yrb+CQtWfzpckPjp3wr7uHc1lEnBZzGds3YnrHJ"
        "R29ID80xzbeeY5GhGJSYLrX+ahtroOQ91UPPnNHtoRbPhJvkvqNN34JB3OaZro3KelW/672i11uWrTc9lzyWNWUF"
        "xcBVMaDxaD92zPyBsitvdmROaQTpqrlbgkGx/fCVzEVs3b7MKtYrZs4l2CWr/DXxFw7ElwumLZj2rMUTQ3p1PKks"
        "fFj8U8hVhoDS5stZPEC2FU3+v3QS/HdcFceSY48V9bckB/46Cf5esjhnTJtn/i4xftm0oewL04b27jB8m+nrMv4P"
        "xlcxsu0RzB7GLwtmD+PvMP5Hxv/K9O8zviejdIHRS4Y+b+h7jF+X0fF32ULZZfj3jO4y+X0mH0eH9vhOVN8CW+Qh"
        "fc7q8611I6wz61/S8ojygu2/NP64tNqf4pQ+hEfta2bQkJwziGm/3381ADvRTerYOAdnsfLp3aHsYQ7EyRXt/iIe"
        "4YU38DuQUPpyuSMPM17BnAiB/iMTJ5e3+/Ov1cYNTBFwrSNT4j4yftKqcfIi5TyOi1M92Z64eY76uYKGC8ROx/uX"
        "tj5EdHHG+XdUvZ6N85aHNsWQ/ieD/wD9fvdSHzhuHmvL8fKYnDCPnU/JY+G5X2d5vcXwe0xfh/G/M30HjO+LqHyR"
        "5ZlbLE/VGb/F8lSbHVhtxu8yfpfp+8HoA2ZfnuWhoozqL7O8E0eH8o+ZfIvh4+jQnjbjp9Hh2pcpeea4aV6OW/6w"
        "ZWjfyoT97kx4jsqE/7U6fR3ODpFuf8HuL1RVh85f10bnr6TxTO5KGm/kORrKjiEfm6dhwvwkk+cpau+K6kjMs2I8"
        "OyeVS5vnMIT6/janTni6zeZMllkzd9nwW8SuSTwts2bD+9Dq6Wh/m/032HWi9xD7HnnynefkO8/Jd57/853nJwZn"
        "WX2D/QtmmPul"
    )
)
