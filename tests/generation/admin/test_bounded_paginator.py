from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from generation.admin.bounded_paginator import BoundedPaginator


class Bound3(BoundedPaginator):
    bound = 3


@pytest.mark.django_db
@pytest.mark.parametrize(("rows", "count"), [(0, 0), (2, 2), (3, 3), (5, 3)])
def test_counting_ends_at_the_bound_when_there_are_more_rows(rows: int, count: int) -> None:
    User.objects.bulk_create(User(username=f"user {number}") for number in range(rows))
    assert Bound3(User.objects.order_by("pk"), 2).count == count
