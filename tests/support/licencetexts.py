"""Licence texts as publishers ship them: the short ones whole, of the long ones their beginning."""

_GRANT = """Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so"""
_NOTICE = """, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software"""
_WARRANTY = """.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
"""
_BSD = """Redistribution and use in source and binary forms, with or without
modification, are permitted provided that the following conditions are met:

1. Redistributions of source code must retain the above copyright notice, this
   list of conditions and the following disclaimer.

2. Redistributions in binary form must reproduce the above copyright notice,
   this list of conditions and the following disclaimer in the documentation
   and/or other materials provided with the distribution.
"""
_NAMES = """
3. Neither the name of the copyright holder nor the names of its
   contributors may be used to endorse or promote products derived from
   this software without specific prior written permission.
"""
_BSD_WARRANTY = """
THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS"
AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE
IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE
DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE
FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL
DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR
SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER
CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY,
OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE
OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.
"""
_ISC = """Permission to use, copy, modify, and/or distribute this software for any
purpose with or without fee is hereby granted"""
#: By the identifiers that they are recognised as.
TEXTS = {
    "MIT": f"MIT License\n\nCopyright (c) 2026 A\n\n{_GRANT}{_NOTICE}{_WARRANTY}",
    "MIT-0": f"MIT No Attribution\n\n{_GRANT}{_WARRANTY}",
    "X11": f"{_GRANT}{_NOTICE}{_WARRANTY}\nExcept as contained in this notice, the name of the X "
    "Consortium shall not be used in advertising or otherwise to promote the sale.",
    "NCSA": f"{_GRANT}, subject to the following conditions:\n* Redistributions of source code "
    "must retain the above copyright notice.\n* Neither the names of Somebody, nor the names of "
    f"its contributors may be used to endorse or promote products{_WARRANTY}",
    "BSD-2-Clause": f"Copyright (c) 2026, A\n\n{_BSD}{_BSD_WARRANTY}",
    "BSD-3-Clause": f"BSD 3-Clause License\n\n{_BSD}{_NAMES}{_BSD_WARRANTY}",
    "BSD-4-Clause": f"{_BSD}\n3. All advertising materials mentioning features or use of this "
    f"software must display the following acknowledgement.\n{_NAMES}{_BSD_WARRANTY}",
    "ISC": f"{_ISC}, provided that the above\ncopyright notice and this permission notice appear "
    "in all copies.\n\nTHE SOFTWARE IS PROVIDED \"AS IS\"",
    "0BSD": f"{_ISC}.\n\nTHE SOFTWARE IS PROVIDED \"AS IS\"",
    "Apache-2.0": "                                 Apache License\n"
    "                           Version 2.0, January 2004\n"
    "                        http://www.apache.org/licenses/\n\n"
    "   TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION\n\n   1. Definitions.\n",
    "MPL-2.0": "Mozilla Public License Version 2.0\n==================================\n\n"
    "1. Definitions\n--------------\n\n1.1. \"Contributor\"\n    means each individual or legal "
    "entity that creates, contributes to\n",
    "GPL-3.0": "                    GNU GENERAL PUBLIC LICENSE\n"
    "                       Version 3, 29 June 2007\n\n Copyright (C) 2007 Free Software "
    "Foundation, Inc. <https://fsf.org/>\n",
    "LGPL-2.1": "                  GNU LESSER GENERAL PUBLIC LICENSE\n"
    "                       Version 2.1, February 1999\n",
    "GCC-exception-3.1": "GCC RUNTIME LIBRARY EXCEPTION\n\nVersion 3.1, 31 March 2009\n",
    "LicenseRef-NVIDIA-End-User-License-Agreement": "NVIDIA SOFTWARE LICENSE AGREEMENT\n\n"
    "IMPORTANT NOTICE \u2013 PLEASE READ AND AGREE BEFORE USING THE SOFTWARE.\n",
    "LicenseRef-Qwen": "Tongyi Qianwen LICENSE AGREEMENT\n\nTongyi Qianwen Release Date: 2023\n",
}  # fmt: skip
