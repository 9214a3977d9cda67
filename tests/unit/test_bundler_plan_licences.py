import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundler.plan.licences import LOOK, UNKNOWN, of_expression, of_metadata, of_text
from tests.support.licencetexts import TEXTS

PERMISSIVE, WEAK, STRONG, PROPRIETARY = (
    "permissive",
    "weak copyleft",
    "strong copyleft",
    "proprietary",
)


@pytest.mark.parametrize(
    ("expression", "family"),
    [
        ("MIT", PERMISSIVE),
        ("apache-2.0", PERMISSIVE),
        ("Apache-2.0 AND MIT", PERMISSIVE),
        ("Apache-2.0 WITH LLVM-exception", PERMISSIVE),
        ("MPL-2.0 AND MIT", WEAK),
        ("LGPL-3.0-or-later", WEAK),
        ("GPL-3.0-only WITH GCC-exception-3.1", WEAK),
        ("GPL-3.0-only", STRONG),
        ("GPL-2.0-only OR MIT", PERMISSIVE),
        ("GPL-2.0-only AND MIT", STRONG),
        ("MIT OR GPL-2.0-only AND MIT", PERMISSIVE),
        ("(MIT OR GPL-2.0-only) AND AGPL-3.0-only", STRONG),
        ("(MIT OR GPL-2.0-only) AND (BSD-3-Clause)", PERMISSIVE),
        ("LicenseRef-NVIDIA-Proprietary", PROPRIETARY),
        ("LicenseRef-NVIDIA-SOFTWARE-LICENSE", PROPRIETARY),
        ("CC-BY-NC-4.0", PROPRIETARY),
        ("CC-BY-4.0", PERMISSIVE),
        ("CC-BY-SA-4.0", WEAK),
        ("MIT AND LicenseRef-Something", UNKNOWN),
        ("Apache-2.0 WITH Commons-Clause", UNKNOWN),
        ("BSD-NonCommercial", UNKNOWN),
        ("MIT AND", UNKNOWN),
        ("(MIT", UNKNOWN),
        ("MIT)", UNKNOWN),
        ("MIT BSD-3-Clause", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_expressions(expression, family):
    assert of_expression(expression).family == family


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("The MIT License (MIT)", PERMISSIVE),
        ("BSD 3-Clause", PERMISSIVE),
        ("Apache License, Version 2.0", PERMISSIVE),
        ("Apache License v2.0 with LLVM Exceptions", PERMISSIVE),
        ("GNU Lesser General Public License v3 (LGPLv3)", WEAK),
        ("Mozilla Public License 2.0 (MPL 2.0)", WEAK),
        ("GNU General Public License v3 (GPLv3)", STRONG),
        ("GNU Affero General Public License v3", STRONG),
        ("NVIDIA Proprietary Software", PROPRIETARY),
        ("Intel End User License Agreement for Developer Tools", PROPRIETARY),
        ("Other/Proprietary License", PROPRIETARY),
        ("Dual License", UNKNOWN),
        ("see LICENCE", UNKNOWN),
        ("UNKNOWN", UNKNOWN),
        ("qwen-research", PROPRIETARY),
        ("GNU Library or Lesser General Public License (LGPL)", WEAK),
        ("GNU GPL", STRONG),
        ("GPLv2", STRONG),
        ("LGPLv2 and GPLv2", STRONG),
        ("AGPL-3", STRONG),
        ("Affero General Public License", STRONG),
        ("Proprietary, contains Apache-2.0 code", PROPRIETARY),
        ("NVIDIA Proprietary (BSD parts)", PROPRIETARY),
        ("Apache 2.0 with Commons Clause", PROPRIETARY),
        ("Apache-2.0 WITH Commons-Clause", PROPRIETARY),
        ("Apache-2.0 WITH Something", UNKNOWN),
        ("BSD-style, non-commercial use only", PROPRIETARY),
        ("BSD-NonCommercial", PROPRIETARY),
        ("MIT for research, commercial licence needed", PROPRIETARY),
        ("MIT, not-for-profit organisations", PROPRIETARY),
        ("Academic Free License (AFL)", UNKNOWN),
        ("BSD, academic use only", PROPRIETARY),
        ("CC BY-NC 4.0", PROPRIETARY),
    ],
)
def test_texts(text, family):
    assert of_text(text).family == family


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("Copyright (c) 2005, Somebody.\nAll rights reserved.\n\nRedistribution and use in source"
         "\n    and binary forms, with or without modification, are permitted", PERMISSIVE),
        ("Permission is hereby granted, free of charge, to any person obtaining a copy" + " x" * 50,
         PERMISSIVE),
        ("NVIDIA SOFTWARE LICENSE AGREEMENT\n" + "This is about Apache and MIT. " * 9, PROPRIETARY),
        ("GNU GENERAL PUBLIC LICENSE Version 3, 29 June 2007" + " text" * 50, STRONG),
        ("lorem ipsum mit dolor bsd " * 9, UNKNOWN),
        ("Permission to use, copy, modify, and distribute this software for educational, research, "
         "and not-for-profit purposes only, without fee, is hereby granted", PROPRIETARY),
        ("Redistribution and use in source and binary forms for non-commercial use are permitted; "
         "ask for anything else", PROPRIETARY),
        ("ACME SOFTWARE LICENSE AGREEMENT between you and Acme. Parts are under the Apache "
         "License, Version 2.0", PROPRIETARY),
        ("Permission is hereby granted, free of charge, to all. Parts: GNU General Public License "
         "Version 3", STRONG),
    ],
)  # fmt: skip
def test_licences_given_in_full_are_known_by_their_phrases_and_cut_short(text, family):
    found = of_text(text)
    assert found.family == family
    assert len(found.text) <= 80


#: What licences' own texts say of others, or of agreements; a restriction is none of it.
ASIDES = [
    ("Apache License Version 2.0, January 2004 … supersede or modify the terms of any separate "
     "license agreement you may have executed", PERMISSIVE),
    ("Software License Agreement (BSD License) Redistribution and use in source and binary forms, "
     "with or without modification", PERMISSIVE),
    ('Mozilla Public License Version 2.0 … "Secondary License" means either the GNU General Public '
     "License, Version 2.0, … all end user license agreements (excluding distributors", WEAK),
    ("GNU LIBRARY GENERAL PUBLIC LICENSE Version 2, June 1991 … is covered by the ordinary GNU "
     "General Public License", WEAK),
    ("GNU LESSER GENERAL PUBLIC LICENSE Version 3 … incorporates version 3 of the GNU General "
     "Public License, and allows use for commercial purposes", WEAK),
    ("GNU GENERAL PUBLIC LICENSE Version 2 … allowed only for noncommercial distribution and only "
     "if you received the program in object code", STRONG),
]  # fmt: skip


@pytest.mark.parametrize(("text", "family"), ASIDES)
def test_a_licence_that_names_another_is_not_the_other(text, family):
    assert of_text(text).family == family


@pytest.mark.parametrize("name", [name for name in TEXTS if of_expression(name).family != UNKNOWN])
def test_licences_given_in_full_are_of_their_own_family(name):
    assert of_text(TEXTS[name]).family == of_expression(name).family


def metadata(*lines: str) -> str:
    return "\n".join(("Metadata-Version: 2.4", "Name: a", "Version: 1", *lines, "", "License: GPL"))


def test_the_expression_wins_over_classifiers_and_these_over_the_text():
    expression = "License-Expression: MPL-2.0"
    classifier = "Classifier: License :: OSI Approved :: MIT License"
    text = "License: GPL-3.0-only"
    assert of_metadata(metadata(text, classifier, expression)).text == "MPL-2.0"
    assert of_metadata(metadata(text, classifier)).text == "MIT License"
    assert of_metadata(metadata(text)).text == "GPL-3.0-only"
    nothing = of_metadata(metadata())
    assert (nothing.text, nothing.family) == ("", UNKNOWN)


def test_several_classifiers_count_as_the_strictest():
    found = of_metadata(
        metadata(
            "Classifier: License :: OSI Approved",
            "Classifier: License :: OSI Approved :: BSD License",
            "Classifier: License :: OSI Approved :: GNU General Public License v2 (GPLv2)",
        )
    )
    assert found.family == STRONG
    assert found.text == "BSD License and GNU General Public License v2 (GPLv2)"


def test_a_classifier_that_says_only_osi_approved_says_nothing():
    assert of_metadata(metadata("Classifier: License :: OSI Approved")).family == UNKNOWN


@pytest.mark.parametrize("family", [STRONG, PROPRIETARY, UNKNOWN])
def test_what_needs_a_look(family):
    assert family in LOOK
    assert WEAK not in LOOK and PERMISSIVE not in LOOK


@given(st.text(max_size=200))
def test_no_text_is_too_odd(text):
    assert of_text(text).family in (PERMISSIVE, WEAK, *LOOK)
    assert of_expression(text).family in (PERMISSIVE, WEAK, *LOOK)


@given(st.lists(st.sampled_from(["MIT", "GPL-3.0-only", "AND", "OR", "WITH", "(", ")"])))
def test_no_expression_is_taken_for_less_than_it_says(tokens):
    """Whatever leaves no choice and names the GPL is not permissive."""
    family = of_expression(" ".join(tokens)).family
    if "OR" not in tokens and "GPL-3.0-only" in tokens:
        assert family != PERMISSIVE
