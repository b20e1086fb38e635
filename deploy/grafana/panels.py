"""The few kinds of panels that Troupe's dashboards are made of, as Grafana's JSON (schema 41, Grafana 12)."""

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
SCOPE = 'job=~"$job"'  # replaces §J in expressions
GREEN, YELLOW, RED = "green", "yellow", "red"


def steps(*pairs):
    """Thresholds: steps((None, GREEN), (0.8, YELLOW)). @returns Grafana's form"""
    return {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in pairs]}


def target(number, expression, legend="", instant=False, table=False):
    return {"datasource": DATASOURCE, "editorMode": "code", "refId": chr(ord("A") + number),
            "expr": expression.replace("§J", SCOPE), "legendFormat": legend or "__auto",
            "range": not instant, "instant": instant, "format": "table" if table else "time_series"}


def panel(kind, title, says, queries, width, height, unit="short", thresholds=None, **more):
    """One panel. says: what it shows and what is bad, for the (i). queries: an expression, or {legend: expression}."""
    if isinstance(queries, str):
        queries = {"": queries}
    defaults = {"unit": unit, "min": 0}
    if thresholds:
        defaults["thresholds"] = thresholds
    defaults.update(more.pop("defaults", {}))
    instant, table = more.pop("instant", False), more.pop("table", False)
    return {"type": kind, "title": title, "description": says, "datasource": DATASOURCE,
            "targets": [target(number, expression, legend, instant, table)
                        for number, (legend, expression) in enumerate(queries.items())],
            "fieldConfig": {"defaults": defaults, "overrides": []}, "gridPos": {"w": width, "h": height}, **more}


def stat(title, says, expression, unit="short", thresholds=None, width=3, mappings=None):
    """A number; coloured by thresholds."""
    defaults = {"mappings": mappings or [], "color": {"mode": "thresholds" if thresholds or mappings else "fixed"}}
    return panel("stat", title, says, expression, width, 4, unit, thresholds, defaults=defaults,
                 options={"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "area", "textMode": "auto",
                          "colorMode": "background" if thresholds or mappings else "value"})


def graph(title, says, queries, unit="short", width=8, stacked=False, limit=None, thresholds=None):
    """Lines over time. limit: the legend of a query that is a bound, drawn dashed."""
    custom = {"lineWidth": 1, "fillOpacity": 30 if stacked else 8, "showPoints": "never",
              "stacking": {"mode": "normal" if stacked else "none"}}
    if thresholds:
        custom["thresholdsStyle"] = {"mode": "line"}
    result = panel("timeseries", title, says, queries, width, 7, unit, thresholds, defaults={"custom": custom},
                   options={"legend": {"displayMode": "list", "placement": "bottom"},
                            "tooltip": {"mode": "multi", "sort": "desc"}})
    if limit:
        result["fieldConfig"]["overrides"].append(
            {"matcher": {"id": "byRegexp", "options": limit},
             "properties": [{"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 8]}},
                            {"id": "custom.fillOpacity", "value": 0}, {"id": "color", "value": {"mode": "fixed", "fixedColor": RED}}]})
    return result


def quantiles(title, says, family, unit="s", width=8):
    """Half, 95 and 99 of a hundred of a histogram."""
    return graph(title, says, {f"p{percent}": f"histogram_quantile({percent / 100}, sum by (le) (rate({family}_bucket{{§J}}[$__rate_interval])))"
                               for percent in (50, 95, 99)}, unit, width)


def heatmap(title, says, family, unit="s", width=8):
    """A histogram over time, darker where more falls."""
    return panel("heatmap", title, says, {"{{le}}": f"sum by (le) (increase({family}_bucket{{§J}}[$__rate_interval]))"},
                 width, 7, unit, options={"calculate": False, "yAxis": {"unit": unit}, "color": {"scheme": "Oranges"},
                                          "tooltip": {"mode": "single"}, "cellGap": 1}) | {"targets": [
                     target(0, f"sum by (le) (increase({family}_bucket{{§J}}[$__rate_interval]))", "{{le}}") | {"format": "heatmap"}]}


def matrix(title, says, expression, row, column, unit, thresholds, width=24, height=12):
    """A table with a row and a column for two labels, its cells coloured."""
    defaults = {"custom": {"cellOptions": {"type": "color-background", "mode": "basic"}, "width": 52, "align": "center"},
                "decimals": 1, "color": {"mode": "thresholds"}}
    return panel("table", title, says, expression, width, height, unit, thresholds, defaults=defaults, instant=True, table=True,
                 transformations=[{"id": "groupingToMatrix", "options": {"columnField": column, "rowField": row,
                                                                       "valueField": "Value", "emptyValue": "null"}}],
                 options={"showHeader": True, "cellHeight": "sm"})


def table(title, says, expression, columns, unit="short", width=12):
    """The labels of series, and their value where it is among the columns."""
    return panel("table", title, says, expression, width, 7, unit, instant=True, table=True,
                 transformations=[{"id": "filterFieldsByName", "options": {"include": {"names": columns}}}],
                 options={"showHeader": True, "cellHeight": "sm"})


def bars(title, says, queries, unit="percentunit", width=8, thresholds=None):
    """Horizontal bars from 0 to 1 for what has a bound."""
    return panel("bargauge", title, says, queries, width, 7, unit,
                 thresholds or steps((None, GREEN), (0.8, YELLOW), (0.95, RED)), defaults={"max": 1},
                 options={"orientation": "horizontal", "displayMode": "basic", "reduceOptions": {"calcs": ["lastNotNull"]}})


def dashboard(name, title, says, *rows):
    """rows: (title of the row, panels...). Panels flow from left to right, 24 units wide."""
    panels, top, number = [], 0, 0
    for heading, *members in rows:
        number += 1
        panels.append({"type": "row", "id": number, "title": heading, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": top, "w": 24, "h": 1}})
        top += 1
        left = height = 0
        for member in members:
            number += 1
            if left + member["gridPos"]["w"] > 24:
                left, top, height = 0, top + height, 0
            place = {"x": left, "y": top, **member["gridPos"]}
            panels.append({"id": number, **member, "gridPos": place})
            left += place["w"]
            height = max(height, place["h"])
        top += height
    return {
        "uid": f"troupe-{name}", "title": f"Troupe: {title}", "description": says, "tags": ["troupe"],
        "schemaVersion": 41, "version": 1, "editable": True, "refresh": "30s", "graphTooltip": 1,
        "time": {"from": "now-1h", "to": "now"},
        "links": [{"type": "dashboards", "title": "Troupe", "tags": ["troupe"], "keepTime": True, "includeVars": True,
                   "asDropdown": False}],
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "label": "Prometheus", "query": "prometheus"},
            {"name": "job", "type": "query", "label": "Cluster", "datasource": DATASOURCE, "refresh": 2,
             "query": {"query": "label_values(troupe_build_info, job)", "refId": "job"},
             "definition": "label_values(troupe_build_info, job)", "includeAll": True, "multi": True,
             "current": {"text": "All", "value": "$__all"}}]},
        "annotations": {"list": [
            {"name": "Alerts", "enable": True, "iconColor": RED, "datasource": DATASOURCE,
             "expr": f'ALERTS{{alertname=~"Troupe.+",alertstate="firing",{SCOPE}}}', "titleFormat": "{{alertname}}",
             "textFormat": "{{instance}}"}]},
        "panels": panels}
