"""The other pages' templates as code, made of `assets/*.html.j2` by `make prepared`; not to be edited."""

# ruff: noqa
# mypy: ignore-errors
# fmt: off

MADE_WITH = "3.1.6"
"""The jinja2 that compiled them; another may write other code for the same text."""


def diff(environment):
    from jinja2.runtime import LoopContext, Macro, Markup, Namespace, TemplateNotFound, TemplateReference, TemplateRuntimeError, Undefined, escape, identity, internalcode, markup_join, missing, str_join
    name = 'diff.html.j2'

    def root(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        parent_template = None
        pass
        parent_template = environment.get_template('page.html.j2', 'diff.html.j2')
        for name, parent_block in parent_template.blocks.items():
            context.blocks.setdefault(name, []).append(parent_block)
        yield from parent_template.root_render_func(context)

    def block_answer(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        _block_vars = {}
        l_0__ = resolve('_')
        l_0_subject = resolve('subject')
        l_0_title = resolve('title')
        l_0_lines = resolve('lines')
        l_0_groups = resolve('groups')
        pass
        yield '<p class="tag">'
        yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Comparison', _block_vars=_block_vars))
        yield ' · '
        yield escape((undefined(name='subject') if l_0_subject is missing else l_0_subject))
        yield '</p>\n<h1>'
        yield escape((undefined(name='title') if l_0_title is missing else l_0_title))
        yield '</h1>\n'
        if (undefined(name='lines') if l_0_lines is missing else l_0_lines):
            pass
            yield '<ul class="answers">\n'
            for l_1_line in (undefined(name='lines') if l_0_lines is missing else l_0_lines):
                _loop_vars = {}
                pass
                yield '<li>'
                yield escape(l_1_line)
                yield '</li>\n'
            l_1_line = missing
            yield '</ul>\n'
        l_1_loop = missing
        for l_1_group, l_1_loop in LoopContext((undefined(name='groups') if l_0_groups is missing else l_0_groups), undefined):
            l_1_outer = missing
            _loop_vars = {}
            pass
            l_1_outer = environment.getattr(l_1_loop, 'index')
            _loop_vars['outer'] = l_1_outer
            yield '<section>\n<h2>'
            yield escape(environment.getattr(l_1_group, 'title'))
            yield '</h2>\n'
            l_2_loop = missing
            for l_2_bar, l_2_loop in LoopContext(environment.getattr(l_1_group, 'bars'), undefined):
                l_2_svg = resolve('svg')
                _loop_vars = {}
                pass
                yield '<figure class="budget">\n<figcaption><strong>'
                yield escape(environment.getattr(l_2_bar, 'where'))
                yield '</strong></figcaption>\n'
                yield escape(context.call(environment.getattr((undefined(name='svg') if l_2_svg is missing else l_2_svg), 'budget_bar'), l_2_bar, markup_join(('bar-', (undefined(name='outer') if l_1_outer is missing else l_1_outer), '-', environment.getattr(l_2_loop, 'index'), )), _loop_vars=_loop_vars))
                yield '\n<ul class="legend">\n'
                def t_1(fiter):
                    for l_3_each in fiter:
                        if (environment.getattr(l_3_each, 'width') > 0):
                            yield l_3_each
                for l_3_each in t_1(environment.getattr(l_2_bar, 'segments')):
                    _loop_vars = {}
                    pass
                    yield '<li>'
                    yield escape(context.call(environment.getattr((undefined(name='svg') if l_2_svg is missing else l_2_svg), 'chip'), environment.getattr(l_3_each, 'category'), environment.getattr(l_3_each, 'variant'), _loop_vars=_loop_vars))
                    yield '<span>'
                    yield escape(environment.getattr(l_3_each, 'name'))
                    yield '</span> <span class="size">'
                    yield escape(environment.getattr(l_3_each, 'size'))
                    yield '</span></li>\n'
                l_3_each = missing
                yield '</ul>\n</figure>\n'
            l_2_loop = l_2_bar = l_2_svg = missing
            yield '<p class="note">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'These bars are on one scale; the line at their end is where the longest ends.', _loop_vars=_loop_vars))
            yield '</p>\n</section>\n'
        l_1_loop = l_1_group = l_1_outer = missing

    def block_footer(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        _block_vars = {}
        l_0__ = resolve('_')
        l_0_version = resolve('version')
        pass
        yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Made by oomdoctor {version} on this machine; nothing left it.', _block_vars=_block_vars), 'format'), version=(undefined(name='version') if l_0_version is missing else l_0_version), _block_vars=_block_vars))

    blocks = {'answer': block_answer, 'footer': block_footer}
    debug_info = '1=12&2=17&3=31&4=35&5=37&7=40&8=44&12=49&13=53&15=56&16=59&18=64&19=66&21=68&22=76&27=86&31=90'
    return locals()


def estimate(environment):
    from jinja2.runtime import LoopContext, Macro, Markup, Namespace, TemplateNotFound, TemplateReference, TemplateRuntimeError, Undefined, escape, identity, internalcode, markup_join, missing, str_join
    name = 'estimate.html.j2'

    def root(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        parent_template = None
        pass
        parent_template = environment.get_template('page.html.j2', 'estimate.html.j2')
        for name, parent_block in parent_template.blocks.items():
            context.blocks.setdefault(name, []).append(parent_block)
        yield from parent_template.root_render_func(context)

    def block_answer(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        _block_vars = {}
        l_0__ = resolve('_')
        l_0_subject = resolve('subject')
        l_0_verdict = resolve('verdict')
        l_0_title = resolve('title')
        l_0_lines = resolve('lines')
        l_0_bar = resolve('bar')
        l_0_svg = resolve('svg')
        l_0_heat = resolve('heat')
        pass
        yield '<p class="tag">'
        yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Estimate', _block_vars=_block_vars))
        yield ' · '
        yield escape((undefined(name='subject') if l_0_subject is missing else l_0_subject))
        yield '</p>\n<h1 class="verdict-'
        yield escape((undefined(name='verdict') if l_0_verdict is missing else l_0_verdict))
        yield '">'
        yield escape((undefined(name='title') if l_0_title is missing else l_0_title))
        yield '</h1>\n<ul class="answers">\n'
        for l_1_line in (undefined(name='lines') if l_0_lines is missing else l_0_lines):
            _loop_vars = {}
            pass
            yield '<li>'
            yield escape(l_1_line)
            yield '</li>\n'
        l_1_line = missing
        yield '</ul>\n<figure class="budget">\n<figcaption><strong>'
        yield escape(environment.getattr((undefined(name='bar') if l_0_bar is missing else l_0_bar), 'where'))
        yield '</strong> <span>'
        yield escape(environment.getattr((undefined(name='bar') if l_0_bar is missing else l_0_bar), 'total'))
        yield '</span></figcaption>\n'
        yield escape(context.call(environment.getattr((undefined(name='svg') if l_0_svg is missing else l_0_svg), 'budget_bar'), (undefined(name='bar') if l_0_bar is missing else l_0_bar), 'bar', _block_vars=_block_vars))
        yield '\n<ul class="legend">\n'
        def t_1(fiter):
            for l_1_each in fiter:
                if (environment.getattr(l_1_each, 'bytes') > 0):
                    yield l_1_each
        for l_1_each in t_1(environment.getattr((undefined(name='bar') if l_0_bar is missing else l_0_bar), 'segments')):
            _loop_vars = {}
            pass
            yield '<li>'
            yield escape(context.call(environment.getattr((undefined(name='svg') if l_0_svg is missing else l_0_svg), 'chip'), environment.getattr(l_1_each, 'category'), _loop_vars=_loop_vars))
            yield '<span class="name">'
            yield escape(environment.getattr(l_1_each, 'name'))
            yield '</span> <span class="size">'
            yield escape(environment.getattr(l_1_each, 'size'))
            yield '</span> <span class="part">'
            yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), '{share}, {known}', _loop_vars=_loop_vars), 'format'), share=environment.getattr(l_1_each, 'share'), known=environment.getattr(l_1_each, 'how_known'), _loop_vars=_loop_vars))
            yield '</span></li>\n'
        l_1_each = missing
        yield '</ul>\n</figure>\n'
        if (undefined(name='heat') if l_0_heat is missing else l_0_heat):
            pass
            yield '<section>\n<h2>'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'GiB of one card, by requests at once and context', _block_vars=_block_vars))
            yield '</h2>\n<div class="scroll" tabindex="0" role="region" aria-label="'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Map of requests at once and context', _block_vars=_block_vars))
            yield '">\n<table class="heat">\n<thead><tr><th scope="col">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'at once', _block_vars=_block_vars))
            yield '</th>'
            for l_1_each in environment.getattr((undefined(name='heat') if l_0_heat is missing else l_0_heat), 'contexts'):
                _loop_vars = {}
                pass
                yield '<th scope="col">'
                yield escape(l_1_each)
                yield '</th>'
            l_1_each = missing
            for l_1_each in environment.getattr((undefined(name='heat') if l_0_heat is missing else l_0_heat), 'longest'):
                _loop_vars = {}
                pass
                yield '<th scope="col">'
                yield escape(l_1_each)
                yield '</th>'
            l_1_each = missing
            yield '</tr></thead>\n<tbody>\n'
            for l_1_row in environment.getattr((undefined(name='heat') if l_0_heat is missing else l_0_heat), 'rows'):
                _loop_vars = {}
                pass
                yield '<tr><th scope="row">'
                yield escape(environment.getattr(l_1_row, 'count'))
                yield '</th>'
                for l_2_cell in environment.getattr(l_1_row, 'cells'):
                    _loop_vars = {}
                    pass
                    yield '<td class="'
                    yield escape(environment.getattr(l_2_cell, 'class'))
                    yield escape((' asked' if environment.getattr(l_2_cell, 'asked') else ''))
                    yield '">'
                    yield escape(environment.getattr(l_2_cell, 'text'))
                    yield '<span class="hidden"> '
                    yield escape(environment.getattr(l_2_cell, 'verdict'))
                    yield '</span></td>'
                l_2_cell = missing
                for l_2_each in environment.getattr(l_1_row, 'largest'):
                    _loop_vars = {}
                    pass
                    yield '<td class="largest">'
                    yield escape(l_2_each)
                    yield '</td>'
                l_2_each = missing
                yield '</tr>\n'
            l_1_row = missing
            yield '</tbody>\n<tfoot>'
            for l_1_most in environment.getattr((undefined(name='heat') if l_0_heat is missing else l_0_heat), 'most'):
                _loop_vars = {}
                pass
                yield '<tr><th scope="row">'
                yield escape(environment.getattr(l_1_most, 'name'))
                yield '</th>'
                for l_2_each in environment.getattr(l_1_most, 'counts'):
                    _loop_vars = {}
                    pass
                    yield '<td class="largest">'
                    yield escape(l_2_each)
                    yield '</td>'
                l_2_each = missing
                for l_2_each in environment.getattr((undefined(name='heat') if l_0_heat is missing else l_0_heat), 'longest'):
                    _loop_vars = {}
                    pass
                    yield '<td></td>'
                l_2_each = missing
                yield '</tr>'
            l_1_most = missing
            yield '</tfoot>\n</table>\n</div>\n<ul class="heat-legend">\n'
            for l_1_each in environment.getattr((undefined(name='heat') if l_0_heat is missing else l_0_heat), 'legend'):
                _loop_vars = {}
                pass
                yield '<li><span class="heat-key '
                yield escape(environment.getattr(l_1_each, 'class'))
                yield '" aria-hidden="true">'
                yield escape((environment.getattr(l_1_each, 'mark') or '\xa0'))
                yield '</span> '
                yield escape(environment.getattr(l_1_each, 'words'))
                yield '</li>\n'
            l_1_each = missing
            yield '</ul>\n<p class="note">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Where it fits, darker is fuller. The framed cell is the one asked for.', _block_vars=_block_vars))
            yield '</p>\n</section>\n'

    def block_footer(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        _block_vars = {}
        l_0__ = resolve('_')
        l_0_version = resolve('version')
        pass
        yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Made by oomdoctor {version} from headers and configuration alone; nothing was loaded, and nothing left this machine.', _block_vars=_block_vars), 'format'), version=(undefined(name='version') if l_0_version is missing else l_0_version), _block_vars=_block_vars))

    blocks = {'answer': block_answer, 'footer': block_footer}
    debug_info = '1=12&2=17&3=34&4=38&6=42&7=46&11=50&12=54&14=56&15=64&19=74&21=77&22=79&24=81&26=98&27=102&30=126&34=147&35=151&38=159&42=162'
    return locals()


def check(environment):
    from jinja2.runtime import LoopContext, Macro, Markup, Namespace, TemplateNotFound, TemplateReference, TemplateRuntimeError, Undefined, escape, identity, internalcode, markup_join, missing, str_join
    name = 'check.html.j2'

    def root(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        parent_template = None
        pass
        parent_template = environment.get_template('page.html.j2', 'check.html.j2')
        for name, parent_block in parent_template.blocks.items():
            context.blocks.setdefault(name, []).append(parent_block)
        yield from parent_template.root_render_func(context)

    def block_answer(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        _block_vars = {}
        l_0__ = resolve('_')
        l_0_subject = resolve('subject')
        l_0_verdict = resolve('verdict')
        l_0_title = resolve('title')
        l_0_groups = resolve('groups')
        pass
        yield '<p class="tag">'
        yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Check', _block_vars=_block_vars))
        if (undefined(name='subject') if l_0_subject is missing else l_0_subject):
            pass
            yield ' · '
            yield escape((undefined(name='subject') if l_0_subject is missing else l_0_subject))
        yield '</p>\n<h1 class="verdict-'
        yield escape((undefined(name='verdict') if l_0_verdict is missing else l_0_verdict))
        yield '">'
        yield escape((undefined(name='title') if l_0_title is missing else l_0_title))
        yield '</h1>\n'
        for l_1_group in (undefined(name='groups') if l_0_groups is missing else l_0_groups):
            _loop_vars = {}
            pass
            yield '<section>\n<h2>'
            yield escape(environment.getattr(l_1_group, 'head'))
            yield '</h2>\n<ul class="found">\n'
            for l_2_each in environment.getattr(l_1_group, 'found'):
                _loop_vars = {}
                pass
                yield '<li class="'
                yield escape(environment.getattr(l_1_group, 'class'))
                yield '"><span class="mark" aria-hidden="true">'
                yield escape(environment.getattr(l_1_group, 'mark'))
                yield '</span>\n<div>'
                if environment.getattr(l_1_group, 'attention'):
                    pass
                    yield '<strong>'
                    yield escape(environment.getattr(l_2_each, 'seen'))
                    yield '</strong>'
                else:
                    pass
                    yield escape(environment.getattr(l_2_each, 'seen'))
                if environment.getattr(l_2_each, 'why'):
                    pass
                    yield '<p>'
                    yield escape(environment.getattr(l_2_each, 'why'))
                    yield '</p>'
                if environment.getattr(l_2_each, 'do'):
                    pass
                    yield '<p>'
                    yield escape(environment.getattr(l_2_each, 'do'))
                    yield '</p>'
                if environment.getattr(l_2_each, 'lines'):
                    pass
                    yield '<pre>'
                    for l_3_line in environment.getattr(l_2_each, 'lines'):
                        _loop_vars = {}
                        pass
                        yield escape(l_3_line)
                        yield '\n'
                    l_3_line = missing
                    yield '</pre>'
                yield '</div></li>\n'
            l_2_each = missing
            yield '</ul>\n</section>\n'
        l_1_group = missing

    def block_footer(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        _block_vars = {}
        l_0__ = resolve('_')
        l_0_version = resolve('version')
        pass
        yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Made by oomdoctor {version} before the run; the command was not started, and nothing left this machine.', _block_vars=_block_vars), 'format'), version=(undefined(name='version') if l_0_version is missing else l_0_version), _block_vars=_block_vars))

    blocks = {'answer': block_answer, 'footer': block_footer}
    debug_info = '1=12&2=17&3=31&4=37&5=41&7=45&9=47&10=51&11=55&12=63&13=68&14=73&21=88'
    return locals()


def sweep(environment):
    from jinja2.runtime import LoopContext, Macro, Markup, Namespace, TemplateNotFound, TemplateReference, TemplateRuntimeError, Undefined, escape, identity, internalcode, markup_join, missing, str_join
    name = 'sweep.html.j2'

    def root(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        parent_template = None
        pass
        parent_template = environment.get_template('page.html.j2', 'sweep.html.j2')
        for name, parent_block in parent_template.blocks.items():
            context.blocks.setdefault(name, []).append(parent_block)
        yield from parent_template.root_render_func(context)

    def block_answer(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        _block_vars = {}
        l_0__ = resolve('_')
        l_0_subject = resolve('subject')
        l_0_verdict = resolve('verdict')
        l_0_title = resolve('title')
        l_0_lines = resolve('lines')
        l_0_heats = resolve('heats')
        l_0_legend = resolve('legend')
        pass
        yield '<p class="tag">'
        yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Sweep', _block_vars=_block_vars))
        yield ' · '
        yield escape((undefined(name='subject') if l_0_subject is missing else l_0_subject))
        yield '</p>\n<h1 class="verdict-'
        yield escape((undefined(name='verdict') if l_0_verdict is missing else l_0_verdict))
        yield '">'
        yield escape((undefined(name='title') if l_0_title is missing else l_0_title))
        yield '</h1>\n<ul class="answers">\n'
        for l_1_line in (undefined(name='lines') if l_0_lines is missing else l_0_lines):
            _loop_vars = {}
            pass
            yield '<li>'
            yield escape(l_1_line)
            yield '</li>\n'
        l_1_line = missing
        yield '</ul>\n<section>\n<h2>'
        yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'The map', _block_vars=_block_vars))
        yield '</h2>\n'
        for l_1_heat in (undefined(name='heats') if l_0_heats is missing else l_0_heats):
            _loop_vars = {}
            pass
            yield '<h3>'
            yield escape(environment.getattr(l_1_heat, 'title'))
            yield '</h3>\n<div class="scroll" tabindex="0" role="region" aria-label="'
            yield escape(environment.getattr(l_1_heat, 'title'))
            yield '">\n<table class="heat">\n<thead><tr><th scope="col">'
            yield escape(environment.getattr(l_1_heat, 'corner'))
            yield '</th>'
            for l_2_each in environment.getattr(l_1_heat, 'columns'):
                _loop_vars = {}
                pass
                yield '<th scope="col">'
                yield escape(l_2_each)
                yield '</th>'
            l_2_each = missing
            yield '</tr></thead>\n<tbody>\n'
            for l_2_row in environment.getattr(l_1_heat, 'rows'):
                _loop_vars = {}
                pass
                yield '<tr><th scope="row">'
                yield escape(environment.getattr(l_2_row, 'name'))
                yield '</th>'
                for l_3_cell in environment.getattr(l_2_row, 'cells'):
                    _loop_vars = {}
                    pass
                    yield '<td class="'
                    yield escape(environment.getattr(l_3_cell, 'class'))
                    yield '" title="'
                    yield escape(environment.getattr(l_3_cell, 'words'))
                    yield '">'
                    yield escape(environment.getattr(l_3_cell, 'text'))
                    yield '<span class="hidden"> '
                    yield escape(environment.getattr(l_3_cell, 'words'))
                    yield '</span></td>'
                l_3_cell = missing
                yield '</tr>\n'
            l_2_row = missing
            yield '</tbody>\n</table>\n</div>\n'
        l_1_heat = missing
        yield '<p class="note">'
        yield escape((undefined(name='legend') if l_0_legend is missing else l_0_legend))
        yield '</p>\n</section>\n'

    def block_footer(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        _block_vars = {}
        l_0__ = resolve('_')
        l_0_version = resolve('version')
        pass
        yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Made by oomdoctor {version} from runs on this machine; nothing left it.', _block_vars=_block_vars), 'format'), version=(undefined(name='version') if l_0_version is missing else l_0_version), _block_vars=_block_vars))

    blocks = {'answer': block_answer, 'footer': block_footer}
    debug_info = '1=12&2=17&3=33&4=37&6=41&7=45&11=49&12=51&13=55&14=57&16=59&18=69&19=73&25=93&28=96'
    return locals()


def page(environment):
    from jinja2.runtime import LoopContext, Macro, Markup, Namespace, TemplateNotFound, TemplateReference, TemplateRuntimeError, Undefined, escape, identity, internalcode, markup_join, missing, str_join
    name = 'page.html.j2'

    def root(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        l_0_language_tag = resolve('language_tag')
        l_0_policy = resolve('policy')
        l_0_version = resolve('version')
        l_0_title = resolve('title')
        l_0_style = resolve('style')
        l_0_patterns = resolve('patterns')
        l_0_sections = resolve('sections')
        pass
        yield '<!DOCTYPE html>\n<html lang="'
        yield escape(context.call((undefined(name='language_tag') if l_0_language_tag is missing else l_0_language_tag)))
        yield '">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="'
        yield escape((undefined(name='policy') if l_0_policy is missing else l_0_policy))
        yield '">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n<meta name="generator" content="oomdoctor '
        yield escape((undefined(name='version') if l_0_version is missing else l_0_version))
        yield '">\n<title>'
        yield escape((undefined(name='title') if l_0_title is missing else l_0_title))
        yield '</title>\n<style>'
        yield escape((undefined(name='style') if l_0_style is missing else l_0_style))
        yield '</style>\n</head>\n<body>\n'
        yield escape((undefined(name='patterns') if l_0_patterns is missing else l_0_patterns))
        yield '\n<main>\n'
        yield from context.blocks['answer'][0](context)
        l_1_loop = missing
        for l_1_section, l_1_loop in LoopContext((undefined(name='sections') if l_0_sections is missing else l_0_sections), undefined):
            _loop_vars = {}
            pass
            yield '<section>\n<h2>'
            yield escape(environment.getattr(l_1_section, 'title'))
            yield '</h2>\n'
            if environment.getattr(l_1_section, 'rows'):
                pass
                yield '<table class="rows">\n<thead><tr>'
                l_2_loop = missing
                for l_2_name, l_2_loop in LoopContext(environment.getattr(l_1_section, 'head'), undefined):
                    _loop_vars = {}
                    pass
                    yield '<th scope="col"'
                    if (not environment.getattr(l_2_loop, 'first')):
                        pass
                        yield ' class="number"'
                    yield '>'
                    yield escape(l_2_name)
                    yield '</th>'
                l_2_loop = l_2_name = missing
                yield '</tr></thead>\n<tbody>\n'
                l_2_loop = missing
                for l_2_row, l_2_loop in LoopContext(environment.getattr(l_1_section, 'rows'), undefined):
                    _loop_vars = {}
                    pass
                    yield '<tr>'
                    l_3_loop = missing
                    for l_3_each, l_3_loop in LoopContext(l_2_row, undefined):
                        _loop_vars = {}
                        pass
                        yield '<td'
                        if (not environment.getattr(l_3_loop, 'first')):
                            pass
                            yield ' class="number"'
                        if environment.getitem(environment.getattr(l_1_section, 'head'), environment.getattr(l_3_loop, 'index0')):
                            pass
                            yield ' data-label="'
                            yield escape(environment.getitem(environment.getattr(l_1_section, 'head'), environment.getattr(l_3_loop, 'index0')))
                            yield '"'
                        yield '>'
                        yield escape(l_3_each)
                        yield '</td>'
                    l_3_loop = l_3_each = missing
                    yield '</tr>\n'
                l_2_loop = l_2_row = missing
                yield '</tbody>\n</table>\n'
            if environment.getattr(l_1_section, 'lines'):
                pass
                yield '<ul class="plain">\n'
                for l_2_line in environment.getattr(l_1_section, 'lines'):
                    _loop_vars = {}
                    pass
                    yield '<li>'
                    yield escape(l_2_line)
                    yield '</li>\n'
                l_2_line = missing
                yield '</ul>\n'
            if environment.getattr(l_1_section, 'remark'):
                pass
                yield '<p class="note">'
                yield escape(environment.getattr(l_1_section, 'remark'))
                yield '</p>'
            yield '</section>\n'
        l_1_loop = l_1_section = missing
        yield '<footer>'
        yield from context.blocks['footer'][0](context)
        yield '</footer>\n</main>\n</body>\n</html>'

    def block_answer(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        _block_vars = {}
        pass

    def block_footer(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        _block_vars = {}
        pass

    blocks = {'answer': block_answer, 'footer': block_footer}
    debug_info = '2=19&5=21&9=23&10=25&11=27&14=29&16=31&17=33&19=37&20=39&22=43&24=56&25=61&30=80&32=83&33=87&37=91&40=99&16=102&40=111'
    return locals()


TEMPLATES = {
    'diff.html.j2': ('76805710ae32b15f84e19227310212804fbac3b79ac29bf2684161959a19ffd9', diff),
    'estimate.html.j2': ('3e40e261fd6f22224bb97ed706e4b23fde667f4e5011c94e88f39605a6b1947b', estimate),
    'check.html.j2': ('4f42a8cc561c58e8723ecac9843570ea429da3e8c9de25097fd9515f7e4cf58c', check),
    'sweep.html.j2': ('3df1023ba19c065bf03a85d6a2adb8ed38a1c3b137f90cc4ccdcc143aca71d0b', sweep),
    'page.html.j2': ('6d7a95af11e10c63a2d32a0cd8bfb8766f8e507e474c33d39c9352318a72cba9', page),
}
