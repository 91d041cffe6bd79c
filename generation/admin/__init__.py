"""Staff pages, one class a file: importing the package registers them on the stock admin site."""

from django.contrib import admin

from generation.admin.api_key_admin import ApiKeyAdmin
from generation.admin.conversation_admin import ConversationAdmin
from generation.admin.review_admin import ReviewAdmin
from generation.admin.run_admin import RunAdmin
from generation.admin.stream_admin import StreamAdmin
from generation.admin.user_admin import UserAdmin
from generation.admin.worker_admin import WorkerAdmin

__all__ = ["ApiKeyAdmin", "ConversationAdmin", "ReviewAdmin", "RunAdmin", "StreamAdmin", "UserAdmin", "WorkerAdmin"]

admin.site.site_header = "Streamsite"
admin.site.site_title = "Streamsite"
admin.site.index_title = "Records"
# Five kinds of record need no second menu; the stream list needs its width.
admin.site.enable_nav_sidebar = False
