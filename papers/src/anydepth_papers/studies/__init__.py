"""What single studies are made of beside their experiment: settings, claims, tables, figures."""
