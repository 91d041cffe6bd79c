"""Drop the index of batches by stream: that of the unique (stream, first_seq) finds them as well."""

from django.db import migrations, models
from django.db.models import deletion


class Migration(migrations.Migration):
    dependencies = [("generation", "0003_text_index")]

    operations = [
        migrations.AlterField(
            model_name="deltabatch",
            name="stream",
            field=models.ForeignKey(
                db_index=False, on_delete=deletion.CASCADE, related_name="batches", to="generation.stream"
            ),
        ),
    ]
