"""The report's templates as code, made of `assets/*.html.j2` by `make prepared`; not to be edited."""

# ruff: noqa
# mypy: ignore-errors
# fmt: off

MADE_WITH = "3.1.6"
"""The jinja2 that compiled them; another may write other code for the same text."""


def answer(environment):
    from jinja2.runtime import LoopContext, Macro, Markup, Namespace, TemplateNotFound, TemplateReference, TemplateRuntimeError, Undefined, escape, identity, internalcode, markup_join, missing, str_join
    name = 'answer.html.j2'

    def root(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        l_0_r = resolve('r')
        l_0_shown = resolve('shown')
        l_0__ = resolve('_')
        l_0_misused = resolve('misused')
        l_0_m = missing
        try:
            t_1 = environment.filters['length']
        except KeyError:
            @internalcode
            def t_1(*unused):
                raise TemplateRuntimeError("No filter named 'length' found.")
        try:
            t_2 = environment.filters['prose']
        except KeyError:
            @internalcode
            def t_2(*unused):
                raise TemplateRuntimeError("No filter named 'prose' found.")
        try:
            t_3 = environment.filters['sentence']
        except KeyError:
            @internalcode
            def t_3(*unused):
                raise TemplateRuntimeError("No filter named 'sentence' found.")
        try:
            t_4 = environment.filters['sentences']
        except KeyError:
            @internalcode
            def t_4(*unused):
                raise TemplateRuntimeError("No filter named 'sentences' found.")
        pass
        l_0_m = context.vars['m'] = environment.get_template('macros.html.j2', 'answer.html.j2').make_module(context.get_all(), True, {'m': l_0_m, 'shown': l_0_shown})
        context.exported_vars.discard('m')
        yield '<header class="answer '
        yield escape(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'verdict'))
        yield '">\n<p class="tag">'
        yield escape(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'tag'))
        if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'subject'):
            pass
            yield ' · '
            yield escape(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'subject'))
        yield '</p>\n<h1>'
        yield escape(t_2(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'headline')))
        yield '</h1>\n'
        if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'lead'):
            pass
            yield '<p class="lead">'
            yield escape(t_2(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'lead')))
            yield '</p>'
        if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'budget'):
            pass
            yield escape(context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'bar'), environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'budget'), 'budget-0'))
            yield '\n'
        elif environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'loose'):
            pass
            if environment.getattr(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'loose'), 'figures'):
                pass
                yield '<ul class="others loose">\n'
                l_1_loop = missing
                for l_1_each, l_1_loop in LoopContext(environment.getattr(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'loose'), 'figures'), undefined):
                    l_1_svg = resolve('svg')
                    _loop_vars = {}
                    pass
                    yield '<li><span class="name">'
                    yield escape(environment.getattr(l_1_each, 'name'))
                    yield '</span>'
                    yield escape(context.call(environment.getattr((undefined(name='svg') if l_1_svg is missing else l_1_svg), 'loose_bar'), l_1_each, markup_join(('loose-', environment.getattr(l_1_loop, 'index'), )), _loop_vars=_loop_vars))
                    yield '<span class="size">'
                    yield escape(environment.getattr(l_1_each, 'size'))
                    yield '</span></li>\n'
                l_1_loop = l_1_each = l_1_svg = missing
                yield '</ul>\n'
            if environment.getattr(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'loose'), 'said'):
                pass
                yield '<p class="note">'
                yield escape(t_2(environment.getattr(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'loose'), 'said')))
                yield '</p>'
        if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'others_alike'):
            pass
            l_0_shown = (8 if (t_1(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'others_alike')) <= 8) else 7)
            context.vars['shown'] = l_0_shown
            context.exported_vars.add('shown')
            yield '<ul class="others'
            yield escape((' many' if (t_1(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'others_alike')) > 3) else cond_expr_undefined("the inline if-expression on line 20 in 'answer.html.j2' evaluated to false and no else section was defined.")))
            yield '">\n'
            l_1_loop = missing
            for l_1_each, l_1_loop in LoopContext(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'others_alike')[:(undefined(name='shown') if l_0_shown is missing else l_0_shown)], undefined):
                l_1_svg = resolve('svg')
                _loop_vars = {}
                pass
                yield '<li><span class="name" title="'
                yield escape(environment.getattr(l_1_each, 'where'))
                yield '">'
                yield escape(environment.getattr(l_1_each, 'where'))
                yield '</span>'
                yield escape(context.call(environment.getattr((undefined(name='svg') if l_1_svg is missing else l_1_svg), 'small_bar'), environment.getattr(l_1_each, 'bar'), markup_join(('small-', environment.getattr(l_1_loop, 'index'), )), _loop_vars=_loop_vars))
                yield '<span class="part">'
                yield escape(environment.getattr(l_1_each, 'room'))
                yield '</span></li>\n'
            l_1_loop = l_1_each = l_1_svg = missing
            if (t_1(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'others_alike')) > (undefined(name='shown') if l_0_shown is missing else l_0_shown)):
                pass
                yield '<li class="further"><a href="#budgets">'
                yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'and {number} more'), 'format'), number=(t_1(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'others_alike')) - (undefined(name='shown') if l_0_shown is missing else l_0_shown))))
                yield '</a></li>'
            yield '</ul>\n'
        yield '<div class="columns">\n<div>\n'
        if (environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'cause') or environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'incidents')):
            pass
            yield '<section aria-labelledby="cause">\n<div class="headed"><h2 id="cause">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Cause'))
            yield '</h2>'
            if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'cause'):
                pass
                yield '<span class="confidence '
                yield escape(environment.getattr(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'cause'), 'confidence'))
                yield '">'
                yield escape(environment.getattr(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'cause'), 'sureness'))
                yield '</span>'
            yield '</div>\n'
            if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'cause'):
                pass
                yield '<p class="cause"><a href="#'
                yield escape(environment.getattr(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'cause'), 'anchor'))
                yield '">'
                yield escape(t_2(environment.getattr(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'cause'), 'title')))
                yield '</a></p>\n'
            else:
                pass
                yield '<p class="cause">'
                yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'The input says: {cause}'), 'format'), cause=environment.getattr(environment.getitem(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'incidents'), 0), 'cause')))
                yield ' <span class="source">('
                yield escape(environment.getattr(environment.getitem(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'incidents'), 0), 'source'))
                yield ')</span></p>\n'
            yield '</section>\n'
        if (environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'holders') or (environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'cause') and environment.getattr(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'cause'), 'owner'))):
            pass
            yield '<section class="who" aria-labelledby="who">\n<h2 id="who">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Who held it'))
            yield '</h2>\n'
            if (environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'cause') and environment.getattr(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'cause'), 'owner')):
                pass
                yield '<p class="owner">'
                yield escape(t_2(environment.getattr(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'cause'), 'owner')))
                yield '</p>'
            if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'holders'):
                pass
                yield '<ul class="holders">\n'
                for l_1_each in environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'holders'):
                    _loop_vars = {}
                    pass
                    yield '<li><span>'
                    yield escape(t_2(environment.getattr(l_1_each, 'label')))
                    yield '</span> <span class="size">'
                    yield escape(environment.getattr(l_1_each, 'value'))
                    yield '</span></li>\n'
                l_1_each = missing
                yield '</ul>\n'
            yield '</section>\n'
        yield '</div>\n'
        if (environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'change') or ((environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'verdict') != 'no-failure') and (not environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'nothing_read')))):
            pass
            yield '<section class="change" aria-labelledby="change">\n'
            if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'change'):
                pass
                yield '<h2 id="change">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Change this'))
                yield '</h2>\n'
                yield escape(context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'remedy'), environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'change')))
                yield '\n'
            elif environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'missing'):
                pass
                yield '<h2 id="change">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Collect this next'))
                yield '</h2>\n'
                for l_1_each in environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'missing')[:2]:
                    _loop_vars = {}
                    pass
                    yield '<p class="do">'
                    yield escape(environment.getattr(l_1_each, 'what'))
                    yield '</p>\n'
                    if environment.getattr(l_1_each, 'how_to_get_it'):
                        pass
                        yield '<p class="how">'
                        yield escape(t_2(environment.getattr(l_1_each, 'how_to_get_it')))
                        yield '</p>'
                l_1_each = missing
            else:
                pass
                yield '<h2 id="change">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Change this'))
                yield '</h2>\n<p>'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'No change is known to help.'))
                yield '</p>\n'
            yield '</section>\n'
        yield '</div>\n'
        if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'missing'):
            pass
            yield '<p class="unseen"><strong>'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Not seen:'))
            yield '</strong>\n'
            l_1_loop = missing
            for l_1_each, l_1_loop in LoopContext(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'missing')[:4], undefined):
                _loop_vars = {}
                pass
                yield escape(environment.getattr(l_1_each, 'what'))
                yield escape((context.call((undefined(name='_') if l_0__ is missing else l_0__), '; ', _loop_vars=_loop_vars) if (not environment.getattr(l_1_loop, 'last')) else cond_expr_undefined("the inline if-expression on line 73 in 'answer.html.j2' evaluated to false and no else section was defined.")))
            l_1_loop = l_1_each = missing
            if (t_1(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'missing')) > 4):
                pass
                yield ' '
                yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'and {number} more'), 'format'), number=(t_1(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'missing')) - 4)))
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), '.'))
            yield '\n<a href="#collect">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'How to collect it'))
            yield '</a></p>\n'
        elif environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'cause'):
            pass
            yield '<p class="unseen"><strong>'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Not seen:'))
            yield '</strong> '
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'nothing that was looked for.'))
            yield '</p>\n'
        if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'misuses'):
            pass
            yield '<section class="misuses" aria-labelledby="misuses">\n<h2 id="misuses">'
            yield escape((undefined(name='misused') if l_0_misused is missing else l_0_misused))
            yield '</h2>\n<ul>\n'
            for l_1_each in environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'misuses'):
                _loop_vars = {}
                pass
                yield '<li><code>'
                yield escape(environment.getattr(l_1_each, 'what'))
                yield '</code>'
                yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), ': {outcome}.', _loop_vars=_loop_vars), 'format'), outcome=environment.getattr(l_1_each, 'outcome'), _loop_vars=_loop_vars))
                yield ' '
                yield escape(t_4([t_3(environment.getattr(l_1_each, 'why')), environment.getattr(l_1_each, 'instead')]))
                yield '\n'
                if environment.getattr(l_1_each, 'lines'):
                    pass
                    yield escape(context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'copy'), environment.getattr(l_1_each, 'lines'), _loop_vars=_loop_vars))
                yield '<p class="note">'
                yield escape(environment.getattr(l_1_each, 'where'))
                yield '</p></li>\n'
            l_1_each = missing
            yield '</ul>\n</section>\n'
        yield '</header>'

    blocks = {}
    debug_info = '1=40&2=43&3=45&4=51&5=53&6=58&7=60&8=62&9=64&11=68&12=73&16=81&18=86&19=88&20=92&21=95&22=100&24=109&29=116&31=119&32=129&33=132&35=139&39=144&41=147&42=149&43=154&45=157&46=161&53=169&55=172&56=175&57=177&58=179&59=182&60=184&61=188&62=190&65=199&66=201&71=205&72=208&73=211&74=223&75=225&76=228&78=232&80=235&82=237&83=241&84=247&85=251'
    return locals()


def failure(environment):
    from jinja2.runtime import LoopContext, Macro, Markup, Namespace, TemplateNotFound, TemplateReference, TemplateRuntimeError, Undefined, escape, identity, internalcode, markup_join, missing, str_join
    name = 'failure.html.j2'

    def root(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        l_0_r = resolve('r')
        l_0__ = resolve('_')
        l_0_m = l_0_parts = missing
        try:
            t_1 = environment.filters['length']
        except KeyError:
            @internalcode
            def t_1(*unused):
                raise TemplateRuntimeError("No filter named 'length' found.")
        try:
            t_2 = environment.filters['prose']
        except KeyError:
            @internalcode
            def t_2(*unused):
                raise TemplateRuntimeError("No filter named 'prose' found.")
        try:
            t_3 = environment.filters['sentences']
        except KeyError:
            @internalcode
            def t_3(*unused):
                raise TemplateRuntimeError("No filter named 'sentences' found.")
        pass
        l_0_m = context.vars['m'] = environment.get_template('macros.html.j2', 'failure.html.j2').make_module(context.get_all(), True, {'m': l_0_m, 'parts': l_0_parts})
        context.exported_vars.discard('m')
        def macro(l_1_budgets):
            t_4 = []
            if l_1_budgets is missing:
                l_1_budgets = undefined("parameter 'budgets' was not provided", name='budgets')
            pass
            t_4.extend((
                '<table class="rows parts">\n<thead><tr><th scope="col">',
                escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Where')),
                '</th><th scope="col">',
                escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Part')),
                '</th><th scope="col" class="number">',
                escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Size')),
                '</th><th scope="col" class="number">',
                escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Share')),
                '</th><th scope="col">',
                escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'How known')),
                '</th></tr></thead>\n',
            ))
            for l_2_bar in l_1_budgets:
                _loop_vars = {}
                pass
                t_4.append(
                    '<tbody>\n',
                )
                for l_3_each in environment.getattr(l_2_bar, 'segments'):
                    l_3_svg = resolve('svg')
                    _loop_vars = {}
                    pass
                    t_4.extend((
                        '<tr><td data-label="',
                        escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Where', _loop_vars=_loop_vars)),
                        '" class="key">',
                        escape(environment.getattr(l_2_bar, 'where')),
                        '</td><td data-label="',
                        escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Part', _loop_vars=_loop_vars)),
                        '">',
                        escape(context.call(environment.getattr((undefined(name='svg') if l_3_svg is missing else l_3_svg), 'chip'), environment.getattr(l_3_each, 'category'), environment.getattr(l_3_each, 'variant'), _loop_vars=_loop_vars)),
                        ' ',
                        escape(environment.getattr(l_3_each, 'name')),
                        '</td><td data-label="',
                        escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Size', _loop_vars=_loop_vars)),
                        '" class="number">',
                        escape(environment.getattr(l_3_each, 'size')),
                        '</td><td data-label="',
                        escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Share', _loop_vars=_loop_vars)),
                        '" class="number">',
                        escape(environment.getattr(l_3_each, 'share')),
                        '</td><td data-label="',
                        escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'How known', _loop_vars=_loop_vars)),
                        '">',
                        escape(environment.getattr(l_3_each, 'how_known')),
                        '</td></tr>\n',
                    ))
                l_3_each = l_3_svg = missing
                t_4.extend((
                    '<tr class="sum"><td data-label="',
                    escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Where', _loop_vars=_loop_vars)),
                    '" class="key">',
                    escape(environment.getattr(l_2_bar, 'where')),
                    '</td><td data-label="',
                    escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Part', _loop_vars=_loop_vars)),
                    '">',
                    escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'in all', _loop_vars=_loop_vars)),
                    '</td><td data-label="',
                    escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Size', _loop_vars=_loop_vars)),
                    '" class="number">',
                    escape(environment.getattr(l_2_bar, 'total')),
                    '</td><td></td><td></td></tr>\n</tbody>\n',
                ))
            l_2_bar = missing
            t_4.append(
                '</table>\n',
            )
            return concat(t_4)
        context.exported_vars.add('parts')
        context.vars['parts'] = l_0_parts = Macro(environment, macro, 'parts', ('budgets',), False, False, False, context.eval_ctx.autoescape)
        if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'moment_of_failure_seen'):
            pass
            yield '<section aria-labelledby="failure">\n<h2 id="failure">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'The moment of failure'))
            yield '</h2>\n'
            if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'other_budgets'):
                pass
                yield '<section aria-labelledby="budgets">\n<h3 id="budgets">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'The other budgets'))
                yield '</h3>\n'
                l_1_loop = missing
                for l_1_each, l_1_loop in LoopContext(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'others_alike'), undefined):
                    _loop_vars = {}
                    pass
                    yield escape(context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'bar'), environment.getattr(l_1_each, 'bar'), markup_join(('budget-', environment.getattr(l_1_loop, 'index'), )), environment.getattr(l_1_each, 'where'), _loop_vars=_loop_vars))
                    yield '\n'
                    if (environment.getattr(l_1_each, 'number') > 1):
                        pass
                        yield '<p class="note">'
                        yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Nearly alike: that of {place} is drawn; each stands in the table.', _loop_vars=_loop_vars), 'format'), place=environment.getattr(environment.getattr(l_1_each, 'bar'), 'where'), _loop_vars=_loop_vars))
                        yield '</p>'
                l_1_loop = l_1_each = missing
                yield '</section>\n'
            yield '\n'
            if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'budget'):
                pass
                yield '<section aria-labelledby="parts">\n<h3 id="parts">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Every part of a budget, and how it is known'))
                yield '</h3>\n'
                yield escape(context.call((undefined(name='parts') if l_0_parts is missing else l_0_parts), environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'budgets')[:9]))
                yield '\n'
                if (t_1(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'budgets')) > 9):
                    pass
                    yield '<details>\n<summary>'
                    yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'and {number} more'), 'format'), number=(t_1(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'budgets')) - 9)))
                    yield '</summary>\n'
                    yield escape(context.call((undefined(name='parts') if l_0_parts is missing else l_0_parts), environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'budgets')[9:]))
                    yield '\n</details>\n'
                yield '</section>\n'
            yield '\n'
            if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'holdings'):
                pass
                yield '<section aria-labelledby="holdings">\n<h3 id="holdings">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Who held what'))
                yield '</h3>\n<table class="rows">\n<thead><tr><th scope="col">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Where'))
                yield '</th><th scope="col">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Owner'))
                yield '</th><th scope="col" class="number">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Size'))
                yield '</th><th scope="col" class="wide"><span class="hidden">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Picture'))
                yield '</span></th><th scope="col" class="number">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Share'))
                yield '</th><th scope="col" class="number">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Pieces'))
                yield '</th><th scope="col">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'How known'))
                yield '</th></tr></thead>\n<tbody>\n'
                for l_1_each in environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'holdings'):
                    l_1_svg = resolve('svg')
                    _loop_vars = {}
                    pass
                    yield '<tr'
                    if environment.getattr(l_1_each, 'anchor'):
                        pass
                        yield ' id="'
                        yield escape(environment.getattr(l_1_each, 'anchor'))
                        yield '"'
                    yield '><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Where', _loop_vars=_loop_vars))
                    yield '" class="key">'
                    yield escape(environment.getattr(l_1_each, 'where'))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Owner', _loop_vars=_loop_vars))
                    yield '" class="depth-'
                    yield escape(environment.getattr(l_1_each, 'depth'))
                    yield '">'
                    yield escape(t_2(environment.getattr(l_1_each, 'owner')))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Size', _loop_vars=_loop_vars))
                    yield '" class="number">'
                    yield escape(environment.getattr(l_1_each, 'size'))
                    yield '</td><td class="wide">'
                    yield escape(context.call(environment.getattr((undefined(name='svg') if l_1_svg is missing else l_1_svg), 'share_bar'), environment.getattr(l_1_each, 'fraction'), environment.getattr(l_1_each, 'category'), _loop_vars=_loop_vars))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Share', _loop_vars=_loop_vars))
                    yield '" class="number">'
                    yield escape(environment.getattr(l_1_each, 'share'))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Pieces', _loop_vars=_loop_vars))
                    yield '" class="number">'
                    yield escape(environment.getattr(l_1_each, 'count'))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'How known', _loop_vars=_loop_vars))
                    yield '" class="key">'
                    yield escape(environment.getattr(l_1_each, 'how_known'))
                    yield '</td></tr>\n'
                l_1_each = l_1_svg = missing
                yield '</tbody>\n</table>\n</section>\n'
            yield '\n'
            if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'stacks'):
                pass
                yield '<section class="by-stack" aria-labelledby="stacks">\n<h3 id="stacks">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Who held what, by stack'))
                yield '</h3>\n<p class="note">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Each row is a frame, under it what it called; the width is what was live of its allocations.'))
                yield '</p>\n'
                l_1_loop = missing
                for l_1_each, l_1_loop in LoopContext(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'stacks'), undefined):
                    l_1_stack_picture = resolve('stack_picture')
                    _loop_vars = {}
                    pass
                    yield '<figure id="stacks-of-'
                    yield escape(environment.getattr(l_1_loop, 'index'))
                    yield '">\n<figcaption><strong>'
                    yield escape(environment.getattr(l_1_each, 'where'))
                    yield '</strong> <span>'
                    yield escape(environment.getattr(l_1_each, 'sentence'))
                    yield '</span></figcaption>\n'
                    yield escape(context.call((undefined(name='stack_picture') if l_1_stack_picture is missing else l_1_stack_picture), l_1_each, markup_join(('stacks-', environment.getattr(l_1_loop, 'index'), )), _loop_vars=_loop_vars))
                    yield '\n<ul class="legend">\n'
                    for (l_2_category, l_2_label) in environment.getattr(l_1_each, 'legend'):
                        l_2_svg = resolve('svg')
                        _loop_vars = {}
                        pass
                        yield '<li>'
                        yield escape(context.call(environment.getattr((undefined(name='svg') if l_2_svg is missing else l_2_svg), 'chip'), l_2_category, _loop_vars=_loop_vars))
                        yield '<span>'
                        yield escape(l_2_label)
                        yield '</span></li>\n'
                    l_2_category = l_2_label = l_2_svg = missing
                    yield '</ul>\n</figure>\n'
                l_1_loop = l_1_each = l_1_stack_picture = missing
                yield '</section>\n'
            yield '\n'
            if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'failed_requests'):
                pass
                yield '<section class="request" aria-labelledby="request">\n<h3 id="request">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'The request that failed, and the memory beside it'))
                yield '</h3>\n'
                l_1_loop = missing
                for l_1_each, l_1_loop in LoopContext(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'failed_requests'), undefined):
                    l_1_segment_map = resolve('segment_map')
                    l_1_name = missing
                    _loop_vars = {}
                    pass
                    l_1_name = markup_join(('map-', environment.getattr(l_1_loop, 'index'), ))
                    _loop_vars['name'] = l_1_name
                    yield '<article id="request-'
                    yield escape(environment.getattr(l_1_loop, 'index'))
                    yield '">\n<h4>'
                    yield escape(environment.getattr(l_1_each, 'where'))
                    yield '</h4>\n'
                    if environment.getattr(l_1_each, 'diagnosed'):
                        pass
                        yield '<p><b>'
                        yield escape(t_2(environment.getattr(l_1_each, 'diagnosed')))
                        yield '</b></p>\n'
                    yield '<p>'
                    yield escape(t_3([environment.getattr(l_1_each, 'asked'), environment.getattr(l_1_each, 'balance')]))
                    yield '</p>\n<p>'
                    yield escape(t_2(environment.getattr(l_1_each, 'reserved')))
                    yield '</p>\n'
                    if environment.getattr(l_1_each, 'reasons'):
                        pass
                        yield '<table class="rows" id="blocks-'
                        yield escape(environment.getattr(l_1_loop, 'index'))
                        yield '">\n<thead><tr><th scope="col">'
                        yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Reserved, not live', _loop_vars=_loop_vars))
                        yield '</th><th scope="col" class="number">'
                        yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Size', _loop_vars=_loop_vars))
                        yield '</th><th scope="col" class="number">'
                        yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Blocks', _loop_vars=_loop_vars))
                        yield '</th><th scope="col" class="number">'
                        yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Largest', _loop_vars=_loop_vars))
                        yield '</th></tr></thead>\n<tbody>\n'
                        for l_2_reason in environment.getattr(l_1_each, 'reasons'):
                            _loop_vars = {}
                            pass
                            yield '<tr><td data-label="'
                            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Reserved, not live', _loop_vars=_loop_vars))
                            yield '">'
                            yield escape(environment.getattr(l_2_reason, 'why'))
                            yield '</td><td data-label="'
                            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Size', _loop_vars=_loop_vars))
                            yield '" class="number">'
                            yield escape(environment.getattr(l_2_reason, 'size'))
                            yield '</td><td data-label="'
                            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Blocks', _loop_vars=_loop_vars))
                            yield '" class="number">'
                            yield escape(environment.getattr(l_2_reason, 'count'))
                            yield '</td><td data-label="'
                            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Largest', _loop_vars=_loop_vars))
                            yield '" class="number">'
                            yield escape(environment.getattr(l_2_reason, 'largest'))
                            yield '</td></tr>\n'
                        l_2_reason = missing
                        yield '</tbody>\n</table>\n'
                    if environment.getattr(l_1_each, 'pinned'):
                        pass
                        yield '<p>'
                        yield escape(t_2(environment.getattr(l_1_each, 'pinned')))
                        yield '</p>\n<ul>\n'
                        for l_2_block in environment.getattr(l_1_each, 'pinning'):
                            _loop_vars = {}
                            pass
                            yield '<li>'
                            yield escape(t_2(l_2_block))
                            yield '</li>\n'
                        l_2_block = missing
                        yield '</ul>\n'
                    yield '<p>'
                    yield escape(t_2(environment.getattr(l_1_each, 'room')))
                    yield '</p>\n'
                    if environment.getattr(l_1_each, 'in_the_way'):
                        pass
                        yield '<ul>\n'
                        for l_2_block in environment.getattr(l_1_each, 'in_the_way'):
                            _loop_vars = {}
                            pass
                            yield '<li>'
                            yield escape(t_2(l_2_block))
                            yield '</li>\n'
                        l_2_block = missing
                        yield '</ul>\n'
                    yield '</article>\n<figure>\n<figcaption>'
                    yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Segments of {place} in the order of their addresses', _loop_vars=_loop_vars), 'format'), place=context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'strong'), environment.getattr(l_1_each, 'where'), _loop_vars=_loop_vars), _loop_vars=_loop_vars))
                    yield ' <span>'
                    yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'each row up to {size}, the request to the same scale', _loop_vars=_loop_vars), 'format'), size=environment.getattr(environment.getattr(l_1_each, 'map'), 'scale'), _loop_vars=_loop_vars))
                    yield '</span></figcaption>\n'
                    yield escape(context.call((undefined(name='segment_map') if l_1_segment_map is missing else l_1_segment_map), environment.getattr(l_1_each, 'map'), (undefined(name='name') if l_1_name is missing else l_1_name), context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Segments of {place}', _loop_vars=_loop_vars), 'format'), place=environment.getattr(l_1_each, 'where'), _loop_vars=_loop_vars), _loop_vars=_loop_vars))
                    yield '\n<ul class="legend">\n'
                    for (l_2_category, l_2_label) in environment.getattr(environment.getattr(l_1_each, 'map'), 'legend'):
                        l_2_svg = resolve('svg')
                        _loop_vars = {}
                        pass
                        yield '<li>'
                        yield escape(context.call(environment.getattr((undefined(name='svg') if l_2_svg is missing else l_2_svg), 'chip'), l_2_category, _loop_vars=_loop_vars))
                        yield '<span>'
                        yield escape(l_2_label)
                        yield '</span></li>\n'
                    l_2_category = l_2_label = l_2_svg = missing
                    if environment.getattr(environment.getattr(l_1_each, 'map'), 'has_marks'):
                        pass
                        yield '<li><span class="way-sample"></span><span>'
                        yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'would have to go', _loop_vars=_loop_vars))
                        yield '</span></li>'
                    yield '</ul>\n'
                    if environment.getattr(environment.getattr(l_1_each, 'map'), 'omitted'):
                        pass
                        yield '<p class="note">'
                        yield escape(environment.getattr(environment.getattr(l_1_each, 'map'), 'omitted'))
                        yield '</p>'
                    yield '</figure>\n'
                l_1_loop = l_1_each = l_1_name = l_1_segment_map = missing
                yield '</section>\n'
            yield '</section>\n'

    blocks = {}
    debug_info = '1=32&2=34&4=41&5=52&7=58&8=64&10=90&15=110&17=113&18=115&20=118&21=121&22=124&23=126&28=134&30=137&31=139&32=141&34=144&35=146&41=150&43=153&45=155&47=169&48=174&55=211&57=214&58=216&59=219&60=224&61=226&62=230&64=232&65=237&73=246&75=249&76=252&77=257&78=260&79=262&80=264&82=270&83=272&84=274&85=277&86=279&88=287&89=291&94=309&95=312&97=314&98=318&102=323&103=325&105=328&106=332&112=337&113=341&115=343&116=348&118=353&120=359'
    return locals()


def findings(environment):
    from jinja2.runtime import LoopContext, Macro, Markup, Namespace, TemplateNotFound, TemplateReference, TemplateRuntimeError, Undefined, escape, identity, internalcode, markup_join, missing, str_join
    name = 'findings.html.j2'

    def root(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        l_0__ = resolve('_')
        l_0_r = resolve('r')
        l_0_m = missing
        try:
            t_1 = environment.filters['prose']
        except KeyError:
            @internalcode
            def t_1(*unused):
                raise TemplateRuntimeError("No filter named 'prose' found.")
        pass
        l_0_m = context.vars['m'] = environment.get_template('macros.html.j2', 'findings.html.j2').make_module(context.get_all(), True, {'m': l_0_m})
        context.exported_vars.discard('m')
        yield '<section aria-labelledby="evidence">\n<h2 id="evidence">'
        yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Evidence'))
        yield '</h2>\n'
        l_1_loop = missing
        t_2 = 1
        for l_1_each, l_1_loop in LoopContext(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'findings'), undefined):
            _loop_vars = {}
            pass
            yield '<article id="'
            yield escape(environment.getattr(l_1_each, 'anchor'))
            yield '">\n<h3><a href="#'
            yield escape(environment.getattr(l_1_each, 'anchor'))
            yield '">'
            yield escape(t_1(environment.getattr(l_1_each, 'title')))
            yield '</a> <span class="confidence '
            yield escape(environment.getattr(l_1_each, 'confidence'))
            yield '">'
            yield escape(environment.getattr(l_1_each, 'sureness'))
            yield '</span></h3>\n<p class="note"><code>'
            yield escape(environment.getattr(l_1_each, 'rule'))
            yield ' · '
            yield escape(environment.getattr(l_1_each, 'family'))
            yield ' / '
            yield escape(environment.getattr(l_1_each, 'cause'))
            yield '</code>'
            if environment.getattr(l_1_each, 'scope'):
                pass
                yield ' · '
                yield escape(environment.getattr(l_1_each, 'scope'))
            if environment.getattr(l_1_each, 'explains'):
                pass
                yield ' · '
                yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'explains {size}', _loop_vars=_loop_vars), 'format'), size=environment.getattr(l_1_each, 'explains'), _loop_vars=_loop_vars))
            yield '</p>\n'
            for l_2_paragraph in environment.getattr(l_1_each, 'explain'):
                _loop_vars = {}
                pass
                yield '<p>'
                yield escape(t_1(l_2_paragraph))
                yield '</p>\n'
            l_2_paragraph = missing
            if (environment.getattr(l_1_each, 'owner') and (not environment.getattr(l_1_loop, 'first'))):
                pass
                yield '<p class="owner">'
                yield escape(t_1(environment.getattr(l_1_each, 'owner')))
                yield '</p>'
            if environment.getattr(l_1_each, 'speaks_for'):
                pass
                yield escape(context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'evidence'), environment.getattr(l_1_each, 'speaks_for'), 'for', context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Speaks for it', _loop_vars=_loop_vars), _loop_vars=_loop_vars))
            if environment.getattr(l_1_each, 'speaks_against'):
                pass
                yield escape(context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'evidence'), environment.getattr(l_1_each, 'speaks_against'), 'against', context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Speaks against it', _loop_vars=_loop_vars), _loop_vars=_loop_vars))
            if environment.getattr(l_1_each, 'conditions'):
                pass
                yield '<details>\n<summary>'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), "The rule's own lines that these facts decided", _loop_vars=_loop_vars))
                yield '</summary>\n'
                for l_2_condition in environment.getattr(l_1_each, 'conditions'):
                    _loop_vars = {}
                    pass
                    yield '<p><code class="condition">'
                    yield escape(l_2_condition)
                    yield '</code></p>\n'
                l_2_condition = missing
                yield '</details>\n'
            if environment.getattr(l_1_each, 'remedies'):
                pass
                yield '<h4>'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'What helps', _loop_vars=_loop_vars))
                yield '</h4>\n<ol class="remedies">\n'
                for l_2_change in environment.getattr(l_1_each, 'remedies'):
                    _loop_vars = {}
                    pass
                    yield '<li>'
                    yield escape(context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'remedy'), l_2_change, _loop_vars=_loop_vars))
                    yield '\n'
                    if environment.getattr(l_2_change, 'cost'):
                        pass
                        yield '<p class="note">'
                        yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Cost: {cost}', _loop_vars=_loop_vars), 'format'), cost=t_1(environment.getattr(l_2_change, 'cost')), _loop_vars=_loop_vars))
                        yield '</p>'
                    if environment.getattr(l_2_change, 'source'):
                        pass
                        yield '<p class="note source">'
                        yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Source: {source}', _loop_vars=_loop_vars), 'format'), source=environment.getattr(l_2_change, 'source'), _loop_vars=_loop_vars))
                        yield '</p>'
                    yield '</li>\n'
                l_2_change = missing
                yield '</ol>\n'
            if environment.getattr(l_1_each, 'not_remedies'):
                pass
                yield '<h4>'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'What will not help, and why', _loop_vars=_loop_vars))
                yield '</h4>\n<ul>\n'
                for l_2_nothing in environment.getattr(l_1_each, 'not_remedies'):
                    _loop_vars = {}
                    pass
                    yield '<li><strong>'
                    yield escape(t_1(environment.getattr(l_2_nothing, 'what')))
                    yield '</strong>'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), ': ', _loop_vars=_loop_vars))
                    yield escape(t_1(environment.getattr(l_2_nothing, 'why')))
                    yield '</li>\n'
                l_2_nothing = missing
                yield '</ul>\n'
            if environment.getattr(l_1_each, 'to_confirm'):
                pass
                yield '<h4>'
                yield escape((context.call((undefined(name='_') if l_0__ is missing else l_0__), 'What would tell more', _loop_vars=_loop_vars) if (environment.getattr(l_1_each, 'confidence') == 'confirmed') else context.call((undefined(name='_') if l_0__ is missing else l_0__), 'How to confirm', _loop_vars=_loop_vars)))
                yield '</h4>\n'
                for l_2_step in environment.getattr(l_1_each, 'to_confirm'):
                    _loop_vars = {}
                    pass
                    yield '<p>'
                    yield escape(t_1(environment.getattr(l_2_step, 'what')))
                    yield '</p>\n'
                    if environment.getattr(l_2_step, 'command'):
                        pass
                        yield escape(context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'copy'), [environment.getattr(l_2_step, 'command')], _loop_vars=_loop_vars))
                l_2_step = missing
            yield '</article>\n'
            t_2 = 0
        l_1_loop = l_1_each = missing
        if t_2:
            pass
            if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'missing'):
                pass
                yield '<p>'
                yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'No rule matches. What is known stands below; what to collect next, under {link}.'), 'format'), link=context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'link_to_missing'))))
                yield '</p>\n'
            else:
                pass
                yield '<p>'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'No rule matches. What is known stands below.'))
                yield '</p>\n'
        yield '</section>'

    blocks = {}
    debug_info = '1=20&3=23&4=27&5=31&6=33&7=41&8=56&9=60&11=63&12=68&13=71&14=74&16=77&17=79&18=83&22=87&23=90&25=92&26=96&27=98&28=103&33=111&34=114&36=116&37=120&41=127&42=130&43=132&44=136&45=138&50=147&51=150&53=155'
    return locals()


def macros(environment):
    from jinja2.runtime import LoopContext, Macro, Markup, Namespace, TemplateNotFound, TemplateReference, TemplateRuntimeError, Undefined, escape, identity, internalcode, markup_join, missing, str_join
    name = 'macros.html.j2'

    def root(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        l_0_size = l_0_strong = l_0_link_to_missing = l_0_copy = l_0_remedy = l_0_bar = l_0_pairs = l_0_evidence = missing
        try:
            t_1 = environment.filters['length']
        except KeyError:
            @internalcode
            def t_1(*unused):
                raise TemplateRuntimeError("No filter named 'length' found.")
        try:
            t_2 = environment.filters['prose']
        except KeyError:
            @internalcode
            def t_2(*unused):
                raise TemplateRuntimeError("No filter named 'prose' found.")
        try:
            t_3 = environment.tests['false']
        except KeyError:
            @internalcode
            def t_3(*unused):
                raise TemplateRuntimeError("No test named 'false' found.")
        pass
        def macro(l_1_text):
            t_4 = []
            if l_1_text is missing:
                l_1_text = undefined("parameter 'text' was not provided", name='text')
            pass
            t_4.extend((
                '<span class="size">',
                escape(l_1_text),
                '</span>',
            ))
            return concat(t_4)
        context.exported_vars.add('size')
        context.vars['size'] = l_0_size = Macro(environment, macro, 'size', ('text',), False, False, False, context.eval_ctx.autoescape)
        def macro(l_1_text):
            t_5 = []
            if l_1_text is missing:
                l_1_text = undefined("parameter 'text' was not provided", name='text')
            pass
            t_5.extend((
                '<strong>',
                escape(l_1_text),
                '</strong>',
            ))
            return concat(t_5)
        context.exported_vars.add('strong')
        context.vars['strong'] = l_0_strong = Macro(environment, macro, 'strong', ('text',), False, False, False, context.eval_ctx.autoescape)
        def macro():
            t_6 = []
            l_1__ = resolve('_')
            pass
            t_6.extend((
                '<a href="#collect">',
                escape(context.call((undefined(name='_') if l_1__ is missing else l_1__), 'how to collect what is missing')),
                '</a>',
            ))
            return concat(t_6)
        context.exported_vars.add('link_to_missing')
        context.vars['link_to_missing'] = l_0_link_to_missing = Macro(environment, macro, 'link_to_missing', (), False, False, False, context.eval_ctx.autoescape)
        def macro(l_1_lines, l_1_systems):
            t_7 = []
            if l_1_lines is missing:
                l_1_lines = undefined("parameter 'lines' was not provided", name='lines')
            if l_1_systems is missing:
                l_1_systems = ()
            pass
            l_2_loop = missing
            for l_2_line, l_2_loop in LoopContext(l_1_lines, undefined):
                l_2__ = resolve('_')
                _loop_vars = {}
                pass
                if l_1_systems:
                    pass
                    t_7.extend((
                        '<p class="or">',
                        escape(environment.getitem(l_1_systems, environment.getattr(l_2_loop, 'index0'))),
                        '</p>',
                    ))
                elif (not environment.getattr(l_2_loop, 'first')):
                    pass
                    t_7.extend((
                        '<p class="or">',
                        escape(context.call((undefined(name='_') if l_2__ is missing else l_2__), 'or', _loop_vars=_loop_vars)),
                        '</p>',
                    ))
                t_7.extend((
                    '<pre class="copy"><code>',
                    escape(l_2_line),
                    '</code></pre>\n',
                ))
            l_2_loop = l_2_line = l_2__ = missing
            return concat(t_7)
        context.exported_vars.add('copy')
        context.vars['copy'] = l_0_copy = Macro(environment, macro, 'copy', ('lines', 'systems'), False, False, False, context.eval_ctx.autoescape)
        def macro(l_1_each):
            t_8 = []
            if l_1_each is missing:
                l_1_each = undefined("parameter 'each' was not provided", name='each')
            pass
            t_8.extend((
                '<p class="do">',
                escape(t_2(environment.getattr(l_1_each, 'do'))),
                '</p>\n',
                escape(context.call((undefined(name='copy') if l_0_copy is missing else l_0_copy), environment.getattr(l_1_each, 'lines'), environment.getattr(l_1_each, 'systems'))),
                '\n',
            ))
            if environment.getattr(l_1_each, 'effect'):
                pass
                t_8.extend((
                    '<p class="effect ',
                    escape(('enough' if environment.getattr(l_1_each, 'enough') else ('short' if t_3(environment.getattr(l_1_each, 'enough')) else 'unsure'))),
                    '">',
                    escape(t_2(environment.getattr(l_1_each, 'effect'))),
                    '</p>',
                ))
            if environment.getattr(l_1_each, 'check_first'):
                pass
                t_8.extend((
                    '<p class="note">',
                    escape(t_2(environment.getattr(l_1_each, 'check_first'))),
                    '</p>',
                ))
            if environment.getattr(l_1_each, 'note'):
                pass
                t_8.extend((
                    '<p class="note about">',
                    escape(t_2(environment.getattr(l_1_each, 'note'))),
                    '</p>',
                ))
            return concat(t_8)
        context.exported_vars.add('remedy')
        context.vars['remedy'] = l_0_remedy = Macro(environment, macro, 'remedy', ('each',), False, False, False, context.eval_ctx.autoescape)
        def macro(l_1_budget, l_1_name, l_1_where):
            t_9 = []
            l_1_svg = resolve('svg')
            l_1__ = resolve('_')
            if l_1_budget is missing:
                l_1_budget = undefined("parameter 'budget' was not provided", name='budget')
            if l_1_name is missing:
                l_1_name = undefined("parameter 'name' was not provided", name='name')
            if l_1_where is missing:
                l_1_where = ''
            pass
            t_9.extend((
                '<figure class="budget">\n<figcaption><strong>',
                escape((l_1_where or environment.getattr(l_1_budget, 'where'))),
                '</strong> <span>',
                escape(environment.getattr(l_1_budget, 'total')),
            ))
            if environment.getattr(l_1_budget, 'usable'):
                pass
                t_9.extend((
                    ' · ',
                    escape(environment.getattr(l_1_budget, 'usable')),
                ))
            t_9.extend((
                '</span></figcaption>\n',
                escape(context.call(environment.getattr((undefined(name='svg') if l_1_svg is missing else l_1_svg), 'budget_bar'), l_1_budget, l_1_name)),
                '\n',
            ))
            if environment.getattr(l_1_budget, 'segments'):
                pass
                t_9.append(
                    '<ul class="legend">\n',
                )
                for l_2_each in environment.getattr(l_1_budget, 'segments'):
                    _loop_vars = {}
                    pass
                    t_9.append(
                        '<li',
                    )
                    if environment.getattr(l_2_each, 'minor'):
                        pass
                        t_9.append(
                            ' class="minor"',
                        )
                    t_9.extend((
                        '>',
                        escape(context.call(environment.getattr((undefined(name='svg') if l_1_svg is missing else l_1_svg), 'chip'), environment.getattr(l_2_each, 'category'), environment.getattr(l_2_each, 'variant'), _loop_vars=_loop_vars)),
                        '<span class="name">',
                        escape(environment.getattr(l_2_each, 'name')),
                        '</span> <span class="size">',
                        escape(environment.getattr(l_2_each, 'size')),
                        '</span> <span class="part">',
                        escape(environment.getattr(l_2_each, 'share')),
                        '</span></li>\n',
                    ))
                l_2_each = missing
                if environment.getattr(l_1_budget, 'minor'):
                    pass
                    t_9.extend((
                        '<li class="rest" hidden><span class="rest-sample"></span><a class="name" href="#parts">',
                        escape(context.call(environment.getattr(context.call((undefined(name='_') if l_1__ is missing else l_1__), '{number} smaller parts'), 'format'), number=t_1(environment.getattr(l_1_budget, 'minor')))),
                        '</a> <span class="size">',
                        escape(environment.getattr(l_1_budget, 'minor_size')),
                        '</span> <span class="part"></span></li>',
                    ))
                t_9.append(
                    '\n',
                )
                if environment.getattr(l_1_budget, 'request'):
                    pass
                    t_9.extend((
                        '<li class="asked"><span class="asked-sample"></span><span class="name">',
                        escape((context.call((undefined(name='_') if l_1__ is missing else l_1__), 'asked for') if environment.getattr(environment.getattr(l_1_budget, 'request'), 'short') else context.call((undefined(name='_') if l_1__ is missing else l_1__), 'asked for, did not fit'))),
                        '</span> <span class="size">',
                        escape(environment.getattr(environment.getattr(l_1_budget, 'request'), 'size')),
                        '</span>',
                    ))
                    if environment.getattr(environment.getattr(l_1_budget, 'request'), 'short'):
                        pass
                        t_9.extend((
                            ' <span class="part">',
                            escape(context.call(environment.getattr(context.call((undefined(name='_') if l_1__ is missing else l_1__), 'short by {size}'), 'format'), size=environment.getattr(environment.getattr(l_1_budget, 'request'), 'short'))),
                            '</span>',
                        ))
                    t_9.append(
                        '</li>',
                    )
                t_9.append(
                    '</ul>\n',
                )
            else:
                pass
                t_9.extend((
                    '<p class="note">',
                    escape(context.call((undefined(name='_') if l_1__ is missing else l_1__), 'Its parts were not measured.')),
                    '</p>\n',
                ))
            if environment.getattr(l_1_budget, 'over'):
                pass
                t_9.extend((
                    '<p class="note">',
                    escape(environment.getattr(l_1_budget, 'over')),
                    '</p>',
                ))
            t_9.append(
                '</figure>\n',
            )
            return concat(t_9)
        context.exported_vars.add('bar')
        context.vars['bar'] = l_0_bar = Macro(environment, macro, 'bar', ('budget', 'name', 'where'), False, False, False, context.eval_ctx.autoescape)
        def macro(l_1_rows):
            t_10 = []
            if l_1_rows is missing:
                l_1_rows = undefined("parameter 'rows' was not provided", name='rows')
            pass
            t_10.append(
                '<dl class="pairs">\n',
            )
            for l_2_each in l_1_rows:
                _loop_vars = {}
                pass
                t_10.extend((
                    '<div><dt>',
                    escape(environment.getattr(l_2_each, 'label')),
                    '</dt><dd>',
                    escape(environment.getattr(l_2_each, 'value')),
                    '</dd></div>\n',
                ))
            l_2_each = missing
            t_10.append(
                '</dl>\n',
            )
            return concat(t_10)
        context.exported_vars.add('pairs')
        context.vars['pairs'] = l_0_pairs = Macro(environment, macro, 'pairs', ('rows',), False, False, False, context.eval_ctx.autoescape)
        def macro(l_1_rows, l_1_kind, l_1_title):
            t_11 = []
            l_1__ = resolve('_')
            if l_1_rows is missing:
                l_1_rows = undefined("parameter 'rows' was not provided", name='rows')
            if l_1_kind is missing:
                l_1_kind = undefined("parameter 'kind' was not provided", name='kind')
            if l_1_title is missing:
                l_1_title = undefined("parameter 'title' was not provided", name='title')
            pass
            t_11.extend((
                '<h4>',
                escape(l_1_title),
                '</h4>\n<table class="rows evidence ',
                escape(l_1_kind),
                '">\n<thead><tr><th scope="col">',
                escape(context.call((undefined(name='_') if l_1__ is missing else l_1__), 'What was seen')),
                '</th><th scope="col" class="number">',
                escape(context.call((undefined(name='_') if l_1__ is missing else l_1__), 'Value')),
                '</th><th scope="col">',
                escape(context.call((undefined(name='_') if l_1__ is missing else l_1__), 'Source')),
                '</th></tr></thead>\n<tbody>\n',
            ))
            for l_2_each in l_1_rows:
                _loop_vars = {}
                pass
                t_11.extend((
                    '<tr><td data-label="',
                    escape(context.call((undefined(name='_') if l_1__ is missing else l_1__), 'What was seen', _loop_vars=_loop_vars)),
                    '">',
                ))
                if environment.getattr(l_2_each, 'anchor'):
                    pass
                    t_11.extend((
                        '<a class="quiet" href="#',
                        escape(environment.getattr(l_2_each, 'anchor')),
                        '">',
                        escape((environment.getattr(l_2_each, 'meaning') or environment.getattr(l_2_each, 'fact'))),
                        '</a>',
                    ))
                else:
                    pass
                    t_11.append(
                        escape((environment.getattr(l_2_each, 'meaning') or environment.getattr(l_2_each, 'fact'))),
                    )
                t_11.extend((
                    '</td><td data-label="',
                    escape(context.call((undefined(name='_') if l_1__ is missing else l_1__), 'Value', _loop_vars=_loop_vars)),
                    '" class="',
                    escape(('number' if (t_1(environment.getattr(l_2_each, 'value')) < 24) else 'long')),
                    '">',
                    escape(environment.getattr(l_2_each, 'value')),
                    '</td><td data-label="',
                    escape(context.call((undefined(name='_') if l_1__ is missing else l_1__), 'Source', _loop_vars=_loop_vars)),
                    '" class="source">',
                ))
                if environment.getattr(l_2_each, 'leads_to'):
                    pass
                    t_11.extend((
                        '<a href="#',
                        escape(environment.getattr(l_2_each, 'leads_to')),
                        '">',
                        escape(environment.getattr(l_2_each, 'source')),
                        '</a>',
                    ))
                else:
                    pass
                    t_11.append(
                        escape(environment.getattr(l_2_each, 'source')),
                    )
                t_11.append(
                    '</td></tr>\n',
                )
            l_2_each = missing
            t_11.append(
                '</tbody>\n</table>\n',
            )
            return concat(t_11)
        context.exported_vars.add('evidence')
        context.vars['evidence'] = l_0_evidence = Macro(environment, macro, 'evidence', ('rows', 'kind', 'title'), False, False, False, context.eval_ctx.autoescape)

    blocks = {}
    debug_info = '1=30&2=43&3=56&4=68&5=76&6=80&7=96&10=103&11=110&12=112&13=115&14=124&15=131&17=141&19=154&20=166&21=169&23=174&24=180&26=197&28=209&31=235&33=238&36=251&38=259&39=264&43=276&44=288&45=290&46=292&48=299&49=304'
    return locals()


def records(environment):
    from jinja2.runtime import LoopContext, Macro, Markup, Namespace, TemplateNotFound, TemplateReference, TemplateRuntimeError, Undefined, escape, identity, internalcode, markup_join, missing, str_join
    name = 'records.html.j2'

    def root(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        l_0_r = resolve('r')
        l_0__ = resolve('_')
        l_0_ngettext = resolve('ngettext')
        try:
            t_1 = environment.filters['length']
        except KeyError:
            @internalcode
            def t_1(*unused):
                raise TemplateRuntimeError("No filter named 'length' found.")
        try:
            t_2 = environment.filters['prose']
        except KeyError:
            @internalcode
            def t_2(*unused):
                raise TemplateRuntimeError("No filter named 'prose' found.")
        pass
        if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'excerpts'):
            pass
            yield '<section aria-labelledby="excerpts">\n<h2 id="excerpts">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Log excerpts'))
            yield '</h2>\n'
            for l_1_each in environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'excerpts'):
                _loop_vars = {}
                pass
                yield '<figure>\n<figcaption>'
                yield escape(environment.getattr(l_1_each, 'path'))
                yield '</figcaption>\n<div class="excerpt" tabindex="0" role="region" aria-label="'
                yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Excerpt of {path}', _loop_vars=_loop_vars), 'format'), path=environment.getattr(l_1_each, 'path'), _loop_vars=_loop_vars))
                yield '">\n'
                for l_2_line in environment.getattr(l_1_each, 'lines'):
                    _loop_vars = {}
                    pass
                    yield '<div id="'
                    yield escape(environment.getattr(l_2_line, 'anchor'))
                    yield '" class="line'
                    yield escape((' marked' if environment.getattr(l_2_line, 'marked') else cond_expr_undefined("the inline if-expression on line 9 in 'records.html.j2' evaluated to false and no else section was defined.")))
                    yield '"><span class="at">'
                    yield escape(environment.getattr(l_2_line, 'number'))
                    yield '</span><span class="hidden">'
                    yield escape((context.call((undefined(name='_') if l_0__ is missing else l_0__), ' evidence:', _loop_vars=_loop_vars) if environment.getattr(l_2_line, 'marked') else cond_expr_undefined("the inline if-expression on line 9 in 'records.html.j2' evaluated to false and no else section was defined.")))
                    yield '</span><code>'
                    yield escape(environment.getattr(l_2_line, 'text'))
                    yield '</code></div>\n'
                l_2_line = missing
                yield '</div>\n</figure>\n'
            l_1_each = missing
            yield '</section>\n'
        yield '\n'
        if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'facts'):
            pass
            yield '<section aria-labelledby="facts">\n<h2 id="facts">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Every fact'))
            yield '</h2>\n<details class="folded">\n<summary>'
            yield escape(context.call(environment.getattr(context.call((undefined(name='ngettext') if l_0_ngettext is missing else l_0_ngettext), '{number} fact with its meaning and source', '{number} facts, each with its meaning and source', t_1(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'facts'))), 'format'), number=t_1(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'facts'))))
            yield '</summary>\n<table class="rows facts">\n<thead><tr><th scope="col">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Fact'))
            yield '</th><th scope="col" class="number">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Value'))
            yield '</th><th scope="col">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Meaning'))
            yield '</th><th scope="col">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Source'))
            yield '</th></tr></thead>\n<tbody>\n'
            for l_1_each in environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'facts'):
                _loop_vars = {}
                pass
                yield '<tr id="'
                yield escape(environment.getattr(l_1_each, 'anchor'))
                yield '"><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Fact', _loop_vars=_loop_vars))
                yield '"><code>'
                yield escape(environment.getattr(l_1_each, 'key'))
                yield '</code></td><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Value', _loop_vars=_loop_vars))
                yield '" class="'
                yield escape(('number' if (t_1(environment.getattr(l_1_each, 'value')) < 24) else 'long'))
                yield '">'
                yield escape(environment.getattr(l_1_each, 'value'))
                yield '</td><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Meaning', _loop_vars=_loop_vars))
                yield '">'
                yield escape(environment.getattr(l_1_each, 'meaning'))
                yield '</td><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Source', _loop_vars=_loop_vars))
                yield '" class="source">'
                if environment.getattr(l_1_each, 'leads_to'):
                    pass
                    yield '<a href="#'
                    yield escape(environment.getattr(l_1_each, 'leads_to'))
                    yield '">'
                    yield escape(environment.getattr(l_1_each, 'source'))
                    yield '</a>'
                else:
                    pass
                    yield escape(environment.getattr(l_1_each, 'source'))
                yield '</td></tr>\n'
            l_1_each = missing
            yield '</tbody>\n</table>\n</details>\n</section>\n'
        yield '\n'
        if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'missing'):
            pass
            yield '<section aria-labelledby="collect">\n<h2 id="collect">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'How to collect what is missing'))
            yield '</h2>\n<dl class="missing">\n'
            for l_1_each in environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'missing'):
                _loop_vars = {}
                pass
                yield '<div><dt>'
                yield escape(environment.getattr(l_1_each, 'what'))
                yield '</dt><dd>'
                if environment.getattr(l_1_each, 'why'):
                    pass
                    yield '<p>'
                    yield escape(t_2(environment.getattr(l_1_each, 'why')))
                    yield '</p>'
                if environment.getattr(l_1_each, 'how_to_get_it'):
                    pass
                    yield '<p class="how">'
                    yield escape(t_2(environment.getattr(l_1_each, 'how_to_get_it')))
                    yield '</p>'
                yield '</dd></div>\n'
            l_1_each = missing
            yield '</dl>\n</section>\n'
        yield '\n'
        if (environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'inputs') or environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'notes')):
            pass
            yield '<section aria-labelledby="inputs">\n<h2 id="inputs">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Inputs'))
            yield '</h2>\n'
            if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'inputs'):
                pass
                yield '<table class="rows">\n<thead><tr><th scope="col">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Path'))
                yield '</th><th scope="col">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Kind'))
                yield '</th><th scope="col">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Status'))
                yield '</th><th scope="col">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Why'))
                yield '</th></tr></thead>\n<tbody>\n'
                l_1_loop = missing
                for l_1_each, l_1_loop in LoopContext(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'inputs'), undefined):
                    _loop_vars = {}
                    pass
                    yield '<tr id="input-'
                    yield escape(environment.getattr(l_1_loop, 'index'))
                    yield '"><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Path', _loop_vars=_loop_vars))
                    yield '" class="source">'
                    yield escape(environment.getattr(l_1_each, 'path'))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Kind', _loop_vars=_loop_vars))
                    yield '" class="key">'
                    yield escape(environment.getattr(l_1_each, 'kind'))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Status', _loop_vars=_loop_vars))
                    yield '" class="key">'
                    yield escape(environment.getattr(l_1_each, 'status'))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Why', _loop_vars=_loop_vars))
                    yield '">'
                    yield escape(t_2(environment.getattr(l_1_each, 'why')))
                    yield '</td></tr>\n'
                l_1_loop = l_1_each = missing
                yield '</tbody>\n</table>\n'
            for l_1_note in environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'notes'):
                _loop_vars = {}
                pass
                yield '<p class="note">'
                yield escape(l_1_note)
                yield '</p>\n'
            l_1_note = missing
            yield '</section>\n'

    blocks = {}
    debug_info = '1=26&3=29&4=31&6=35&7=37&8=39&9=43&17=58&19=61&21=63&23=65&25=73&26=77&34=109&36=112&38=114&39=118&45=134&47=137&48=139&50=142&52=151&53=155&58=175&59=179'
    return locals()


def report(environment):
    from jinja2.runtime import LoopContext, Macro, Markup, Namespace, TemplateNotFound, TemplateReference, TemplateRuntimeError, Undefined, escape, identity, internalcode, markup_join, missing, str_join
    name = 'report.html.j2'

    def root(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        l_0_language_tag = resolve('language_tag')
        l_0_policy = resolve('policy')
        l_0_r = resolve('r')
        l_0_style = resolve('style')
        l_0__ = resolve('_')
        l_0_patterns = resolve('patterns')
        l_0_data = resolve('data')
        l_0_scripts = resolve('scripts')
        pass
        yield '<!DOCTYPE html>\n<html lang="'
        yield escape((undefined(name='language_tag') if l_0_language_tag is missing else l_0_language_tag))
        yield '">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="'
        yield escape((undefined(name='policy') if l_0_policy is missing else l_0_policy))
        yield '">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n<meta name="generator" content="oomdoctor '
        yield escape(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'version'))
        yield '">\n<title>'
        yield escape(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'headline'))
        yield '</title>\n<style>'
        yield escape((undefined(name='style') if l_0_style is missing else l_0_style))
        yield '</style>\n</head>\n<body>\n<a class="skip" href="#evidence">'
        yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Skip to the evidence'))
        yield '</a>\n'
        yield escape((undefined(name='patterns') if l_0_patterns is missing else l_0_patterns))
        yield '\n<main>\n'
        template = environment.get_template('answer.html.j2', 'report.html.j2')
        gen = template.root_render_func(template.new_context(context.get_all(), True, {}))
        try:
            for event in gen:
                yield event
        finally: gen.close()
        yield '<nav aria-label="'
        yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Sections'))
        yield '">\n'
        for (l_1_anchor, l_1_title) in environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'sections'):
            _loop_vars = {}
            pass
            yield '<a href="#'
            yield escape(l_1_anchor)
            yield '">'
            yield escape(l_1_title)
            yield '</a>\n'
        l_1_anchor = l_1_title = missing
        yield '</nav>\n'
        template = environment.get_template('findings.html.j2', 'report.html.j2')
        gen = template.root_render_func(template.new_context(context.get_all(), True, {}))
        try:
            for event in gen:
                yield event
        finally: gen.close()
        template = environment.get_template('timeline.html.j2', 'report.html.j2')
        gen = template.root_render_func(template.new_context(context.get_all(), True, {}))
        try:
            for event in gen:
                yield event
        finally: gen.close()
        template = environment.get_template('window.html.j2', 'report.html.j2')
        gen = template.root_render_func(template.new_context(context.get_all(), True, {}))
        try:
            for event in gen:
                yield event
        finally: gen.close()
        template = environment.get_template('failure.html.j2', 'report.html.j2')
        gen = template.root_render_func(template.new_context(context.get_all(), True, {}))
        try:
            for event in gen:
                yield event
        finally: gen.close()
        template = environment.get_template('surroundings.html.j2', 'report.html.j2')
        gen = template.root_render_func(template.new_context(context.get_all(), True, {}))
        try:
            for event in gen:
                yield event
        finally: gen.close()
        template = environment.get_template('records.html.j2', 'report.html.j2')
        gen = template.root_render_func(template.new_context(context.get_all(), True, {}))
        try:
            for event in gen:
                yield event
        finally: gen.close()
        yield '<footer>\n<p>'
        yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Fingerprint'))
        yield ' <code>'
        yield escape(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'fingerprint'))
        yield '</code></p>\n<p>oomdoctor '
        yield escape(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'version'))
        if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'made'):
            pass
            yield ' · '
            yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'made {time}'), 'format'), time=environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'made')))
        yield '</p>\n</footer>\n</main>\n<script type="application/json" id="report-data">'
        yield escape((undefined(name='data') if l_0_data is missing else l_0_data))
        yield '</script>\n'
        for l_1_script in (undefined(name='scripts') if l_0_scripts is missing else l_0_scripts):
            _loop_vars = {}
            pass
            yield '<script>'
            yield escape(l_1_script)
            yield '</script>\n'
        l_1_script = missing
        yield '</body>\n</html>'

    blocks = {}
    debug_info = '2=20&5=22&9=24&10=26&11=28&14=30&15=32&17=34&18=41&19=43&20=47&23=53&24=59&25=65&26=71&27=77&28=83&30=90&31=94&34=100&35=102&36=106'
    return locals()


def surroundings(environment):
    from jinja2.runtime import LoopContext, Macro, Markup, Namespace, TemplateNotFound, TemplateReference, TemplateRuntimeError, Undefined, escape, identity, internalcode, markup_join, missing, str_join
    name = 'surroundings.html.j2'

    def root(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        l_0_r = resolve('r')
        l_0_estimated = resolve('estimated')
        l_0__ = resolve('_')
        l_0_reckoned = resolve('reckoned')
        l_0_m = missing
        try:
            t_1 = environment.filters['length']
        except KeyError:
            @internalcode
            def t_1(*unused):
                raise TemplateRuntimeError("No filter named 'length' found.")
        try:
            t_2 = environment.filters['prose']
        except KeyError:
            @internalcode
            def t_2(*unused):
                raise TemplateRuntimeError("No filter named 'prose' found.")
        pass
        l_0_m = context.vars['m'] = environment.get_template('macros.html.j2', 'surroundings.html.j2').make_module(context.get_all(), True, {'m': l_0_m})
        context.exported_vars.discard('m')
        if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'estimated'):
            pass
            yield '<section aria-labelledby="estimated">\n<h2 id="estimated">'
            yield escape((undefined(name='estimated') if l_0_estimated is missing else l_0_estimated))
            yield '</h2>\n<p class="note">'
            yield escape(environment.getattr(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'estimated'), 'settings'))
            yield '</p>\n'
            for l_1_sentence in environment.getattr(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'estimated'), 'sentences'):
                _loop_vars = {}
                pass
                yield '<p>'
                yield escape(t_2(l_1_sentence))
                yield '</p>\n'
            l_1_sentence = missing
            yield '<table class="rows">\n<thead><tr><th scope="col">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Part'))
            yield '</th><th scope="col" class="number">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Estimated'))
            yield '</th><th scope="col" class="number">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Found'))
            yield '</th><th scope="col" class="number">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Apart'))
            yield '</th><th scope="col">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'How known'))
            yield '</th></tr></thead>\n<tbody>\n'
            for l_1_each in environment.getattr(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'estimated'), 'rows'):
                _loop_vars = {}
                pass
                yield '<tr><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Part', _loop_vars=_loop_vars))
                yield '" class="key">'
                yield escape(environment.getattr(l_1_each, 'what'))
                yield '</td><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Estimated', _loop_vars=_loop_vars))
                yield '" class="number">'
                yield escape(environment.getattr(l_1_each, 'estimated'))
                yield '</td><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Found', _loop_vars=_loop_vars))
                yield '" class="number">'
                yield escape((environment.getattr(l_1_each, 'observed') or context.call((undefined(name='_') if l_0__ is missing else l_0__), 'not known', _loop_vars=_loop_vars)))
                yield '</td><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Apart', _loop_vars=_loop_vars))
                yield '" class="number">'
                yield escape(environment.getattr(l_1_each, 'apart'))
                yield '</td><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'How known', _loop_vars=_loop_vars))
                yield '" class="key">'
                yield escape(environment.getattr(l_1_each, 'how_estimated'))
                yield '; '
                yield escape(environment.getattr(l_1_each, 'how_observed'))
                yield '</td></tr>\n'
            l_1_each = missing
            yield '</tbody>\n</table>\n</section>\n'
        yield '\n'
        if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'comparisons'):
            pass
            yield '<section aria-labelledby="comparisons">\n<h2 id="comparisons">'
            yield escape((undefined(name='reckoned') if l_0_reckoned is missing else l_0_reckoned))
            yield '</h2>\n<table class="rows">\n<thead><tr><th scope="col">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'What'))
            yield '</th><th scope="col" class="number">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Reckoned with'))
            yield '</th><th scope="col" class="number">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Seen'))
            yield '</th><th scope="col" class="number">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Apart'))
            yield '</th><th scope="col">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'How known'))
            yield '</th></tr></thead>\n<tbody>\n'
            for l_1_each in environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'comparisons'):
                _loop_vars = {}
                pass
                yield '<tr><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'What', _loop_vars=_loop_vars))
                yield '" class="key">'
                yield escape(environment.getattr(l_1_each, 'what'))
                yield '</td><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Reckoned with', _loop_vars=_loop_vars))
                yield '" class="number">'
                yield escape(environment.getattr(l_1_each, 'reckoned'))
                yield '</td><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Seen', _loop_vars=_loop_vars))
                yield '" class="number">'
                yield escape(environment.getattr(l_1_each, 'seen'))
                yield '</td><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Apart', _loop_vars=_loop_vars))
                yield '" class="number">'
                yield escape(environment.getattr(l_1_each, 'apart'))
                yield '</td><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'How known', _loop_vars=_loop_vars))
                yield '" class="key">'
                yield escape(environment.getattr(l_1_each, 'how_reckoned'))
                yield '; '
                yield escape(environment.getattr(l_1_each, 'how_seen'))
                yield '</td></tr>\n'
            l_1_each = missing
            yield '</tbody>\n</table>\n</section>\n'
        yield '\n<section aria-labelledby="processes">\n<h2 id="processes">'
        yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Processes on each device'))
        yield '</h2>\n'
        l_1_loop = missing
        t_3 = 1
        for l_1_each, l_1_loop in LoopContext(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'devices'), undefined):
            _loop_vars = {}
            pass
            yield '<h3 id="processes-'
            yield escape(environment.getattr(l_1_loop, 'index'))
            yield '">'
            yield escape(environment.getattr(l_1_each, 'where'))
            yield '</h3>\n<p class="note">'
            yield escape(environment.getattr(l_1_each, 'totals'))
            if environment.getattr(l_1_each, 'source'):
                pass
                yield ' · '
                yield escape(environment.getattr(l_1_each, 'source'))
            yield '</p>\n'
            if environment.getattr(l_1_each, 'processes'):
                pass
                yield '<table class="rows">\n<thead><tr><th scope="col">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Process', _loop_vars=_loop_vars))
                yield '</th><th scope="col">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Name', _loop_vars=_loop_vars))
                yield '</th><th scope="col" class="number">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Size', _loop_vars=_loop_vars))
                yield '</th><th scope="col">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Whose', _loop_vars=_loop_vars))
                yield '</th></tr></thead>\n<tbody>\n'
                for l_2_process in environment.getattr(l_1_each, 'processes'):
                    _loop_vars = {}
                    pass
                    yield '<tr><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Process', _loop_vars=_loop_vars))
                    yield '" class="key">'
                    yield escape(environment.getattr(l_2_process, 'pid'))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Name', _loop_vars=_loop_vars))
                    yield '">'
                    yield escape(environment.getattr(l_2_process, 'name'))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Size', _loop_vars=_loop_vars))
                    yield '" class="number">'
                    yield escape(environment.getattr(l_2_process, 'used'))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Whose', _loop_vars=_loop_vars))
                    yield '" class="key">'
                    yield escape(environment.getattr(l_2_process, 'whose'))
                    yield '</td></tr>\n'
                l_2_process = missing
                yield '</tbody>\n</table>\n'
            if environment.getattr(l_1_each, 'said'):
                pass
                yield '<p class="note">'
                yield escape(environment.getattr(l_1_each, 'said'))
                yield '</p>'
            t_3 = 0
        l_1_loop = l_1_each = missing
        if t_3:
            pass
            yield '<p class="note">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Not seen: no look at the devices is in the input.'))
            yield '</p>\n'
        yield '</section>\n\n<section aria-labelledby="host">\n<h2 id="host">'
        yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Host, cgroup and memory pressure'))
        yield '</h2>\n'
        if (not environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'host_seen')):
            pass
            yield '<p class="note">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Not seen: the input holds no figure of the host, of a cgroup or of memory pressure.'))
            yield '</p>\n'
        else:
            pass
            yield '<table class="rows">\n<thead><tr><th scope="col">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'What was seen'))
            yield '</th><th scope="col" class="number">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Value'))
            yield '</th><th scope="col">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Source'))
            yield '</th></tr></thead>\n'
            for l_1_group in environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'measures'):
                _loop_vars = {}
                pass
                yield '<tbody>\n<tr><th scope="rowgroup" colspan="3" class="group">'
                yield escape(environment.getattr(l_1_group, 'title'))
                yield '</th></tr>\n'
                for l_2_each in environment.getattr(l_1_group, 'measures'):
                    _loop_vars = {}
                    pass
                    yield '<tr id="'
                    yield escape(environment.getattr(l_2_each, 'name_of_row'))
                    yield '"><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'What was seen', _loop_vars=_loop_vars))
                    yield '">'
                    yield escape(environment.getattr(l_2_each, 'name'))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Value', _loop_vars=_loop_vars))
                    yield '" class="'
                    yield escape(('number' if (t_1(environment.getattr(l_2_each, 'value')) < 24) else 'long'))
                    yield escape(('' if environment.getattr(l_2_each, 'seen') else ' unseen-value'))
                    yield '">'
                    yield escape(environment.getattr(l_2_each, 'value'))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Source', _loop_vars=_loop_vars))
                    yield '" class="source">'
                    if environment.getattr(l_2_each, 'anchor'):
                        pass
                        yield '<a href="#'
                        yield escape(environment.getattr(l_2_each, 'anchor'))
                        yield '">'
                        yield escape(environment.getattr(l_2_each, 'source'))
                        yield '</a>'
                    else:
                        pass
                        yield escape(environment.getattr(l_2_each, 'source'))
                    yield '</td></tr>\n'
                l_2_each = missing
                yield '</tbody>\n'
            l_1_group = missing
            yield '</table>\n'
        yield '</section>\n\n'
        if (((environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'environment') or environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'versions')) or environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'host')) or environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'variables')):
            pass
            yield '<section aria-labelledby="environment">\n<h2 id="environment">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Environment'))
            yield '</h2>\n'
            if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'environment'):
                pass
                yield escape(context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'pairs'), environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'environment')))
            if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'versions'):
                pass
                yield '<h3>'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Versions'))
                yield '</h3>'
                yield escape(context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'pairs'), environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'versions')))
            if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'host'):
                pass
                yield '<h3>'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Host'))
                yield '</h3>'
                yield escape(context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'pairs'), environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'host')))
            if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'variables'):
                pass
                yield '<h3>'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Variables'))
                yield '</h3>'
                yield escape(context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'pairs'), environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'variables')))
            yield '</section>\n'

    blocks = {}
    debug_info = '1=28&2=30&4=33&5=35&6=37&7=41&10=45&12=55&13=59&20=84&22=87&24=89&26=99&27=103&35=128&36=132&37=136&38=140&39=146&41=149&43=157&44=161&49=179&51=189&56=192&57=194&58=197&61=202&62=208&64=212&65=214&66=218&74=249&76=252&77=254&78=257&79=263&80=269'
    return locals()


def timeline(environment):
    from jinja2.runtime import LoopContext, Macro, Markup, Namespace, TemplateNotFound, TemplateReference, TemplateRuntimeError, Undefined, escape, identity, internalcode, markup_join, missing, str_join
    name = 'timeline.html.j2'

    def root(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        l_0__ = resolve('_')
        l_0_r = resolve('r')
        l_0_m = l_0_course = missing
        try:
            t_1 = environment.filters['length']
        except KeyError:
            @internalcode
            def t_1(*unused):
                raise TemplateRuntimeError("No filter named 'length' found.")
        try:
            t_2 = environment.filters['list']
        except KeyError:
            @internalcode
            def t_2(*unused):
                raise TemplateRuntimeError("No filter named 'list' found.")
        try:
            t_3 = environment.filters['prose']
        except KeyError:
            @internalcode
            def t_3(*unused):
                raise TemplateRuntimeError("No filter named 'prose' found.")
        try:
            t_4 = environment.filters['selectattr']
        except KeyError:
            @internalcode
            def t_4(*unused):
                raise TemplateRuntimeError("No filter named 'selectattr' found.")
        pass
        l_0_m = context.vars['m'] = environment.get_template('macros.html.j2', 'timeline.html.j2').make_module(context.get_all(), True, {'course': l_0_course, 'm': l_0_m})
        context.exported_vars.discard('m')
        def macro(l_1_chart):
            t_5 = []
            l_1_svg = resolve('svg')
            if l_1_chart is missing:
                l_1_chart = undefined("parameter 'chart' was not provided", name='chart')
            pass
            t_5.extend((
                '<figure class="course" id="timeline-of-',
                escape(environment.getattr(l_1_chart, 'number')),
                '">\n<figcaption><strong>',
                escape(environment.getattr(l_1_chart, 'where')),
                '</strong>',
            ))
            if environment.getattr(l_1_chart, 'areas'):
                pass
                t_5.append(
                    ' <span>',
                )
                if environment.getattr(l_1_chart, 'unseen'):
                    pass
                    t_5.append(
                        escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'by category, {how}; the rest was not seen'), 'format'), how=environment.getattr(l_1_chart, 'how_sampled'))),
                    )
                else:
                    pass
                    t_5.append(
                        escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'by category, {how}; what is left to the limit is free'), 'format'), how=environment.getattr(l_1_chart, 'how_sampled'))),
                    )
                t_5.append(
                    '</span>',
                )
            t_5.extend((
                '</figcaption>\n',
                escape(context.call(environment.getattr((undefined(name='svg') if l_1_svg is missing else l_1_svg), 'timeline'), l_1_chart, markup_join(('chart-', environment.getattr(l_1_chart, 'number'), )))),
                '\n<ul class="legend">\n',
            ))
            for l_2_area in environment.getattr(l_1_chart, 'areas'):
                _loop_vars = {}
                pass
                t_5.extend((
                    '<li>',
                    escape(context.call(environment.getattr((undefined(name='svg') if l_1_svg is missing else l_1_svg), 'chip'), environment.getattr(l_2_area, 'category'), _loop_vars=_loop_vars)),
                    '<span>',
                    escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), '{curve}: peak {peak}, last {last}', _loop_vars=_loop_vars), 'format'), curve=environment.getattr(l_2_area, 'name'), peak=context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'size'), environment.getattr(l_2_area, 'peak'), _loop_vars=_loop_vars), last=context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'size'), environment.getattr(l_2_area, 'last'), _loop_vars=_loop_vars), _loop_vars=_loop_vars)),
                    ' <span class="part">',
                    escape(environment.getattr(l_2_area, 'how_known')),
                    '</span></span></li>\n',
                ))
            l_2_area = missing
            if environment.getattr(l_1_chart, 'unseen'):
                pass
                t_5.extend((
                    '<li>',
                    escape(context.call(environment.getattr((undefined(name='svg') if l_1_svg is missing else l_1_svg), 'unseen_chip'))),
                    '<span>',
                    escape(environment.getattr(environment.getattr(l_1_chart, 'unseen'), 'said')),
                    '</span></li>\n',
                ))
            elif environment.getattr(l_1_chart, 'gaps'):
                pass
                t_5.extend((
                    '<li>',
                    escape(context.call(environment.getattr((undefined(name='svg') if l_1_svg is missing else l_1_svg), 'unseen_chip'))),
                    '<span>',
                    escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'not seen: the time before the first look or after the last')),
                    '</span></li>\n',
                ))
            for l_2_curve in environment.getattr(l_1_chart, 'curves'):
                _loop_vars = {}
                pass
                t_5.extend((
                    '<li>',
                    escape(context.call(environment.getattr((undefined(name='svg') if l_1_svg is missing else l_1_svg), 'curve_sample'), environment.getattr(l_2_curve, 'place'), _loop_vars=_loop_vars)),
                    '<span>',
                    escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), '{curve}: peak {peak}, last {last}', _loop_vars=_loop_vars), 'format'), curve=environment.getattr(l_2_curve, 'name'), peak=context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'size'), environment.getattr(l_2_curve, 'peak'), _loop_vars=_loop_vars), last=context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'size'), environment.getattr(l_2_curve, 'last'), _loop_vars=_loop_vars), _loop_vars=_loop_vars)),
                    ' <span class="part">',
                    escape(environment.getattr(l_2_curve, 'how_sampled')),
                    '</span></span></li>\n',
                ))
            l_2_curve = missing
            for l_2_sample in environment.getattr(l_1_chart, 'samples'):
                _loop_vars = {}
                pass
                t_5.extend((
                    '<li id="',
                    escape(environment.getattr(l_2_sample, 'anchor')),
                    '" class="sampled"><span class="number-of">',
                    escape(environment.getattr(l_2_sample, 'letter')),
                    '</span><span>',
                    escape(environment.getattr(l_2_sample, 'said')),
                    '</span></li>\n',
                ))
            l_2_sample = missing
            t_5.append(
                '</ul>\n</figure>\n',
            )
            return concat(t_5)
        context.exported_vars.add('course')
        context.vars['course'] = l_0_course = Macro(environment, macro, 'course', ('chart',), False, False, False, context.eval_ctx.autoescape)
        yield '<section aria-labelledby="timeline">\n<h2 id="timeline">'
        yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Timeline'))
        yield '</h2>\n'
        if (not environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'charts')):
            pass
            yield '<p class="note">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Not seen: the input holds no figures of memory over time.'))
            yield '</p>\n'
        if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'moments'):
            pass
            yield '<table class="rows moments">\n<thead><tr><th scope="col">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Mark'))
            yield '</th><th scope="col">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'When'))
            yield '</th><th scope="col">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Where'))
            yield '</th><th scope="col">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'What happened'))
            yield '</th><th scope="col">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Source'))
            yield '</th></tr></thead>\n<tbody>\n'
            for l_1_each in environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'moments'):
                _loop_vars = {}
                pass
                yield '<tr><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Mark', _loop_vars=_loop_vars))
                yield '"><span class="number-of '
                yield escape(environment.getattr(l_1_each, 'kind'))
                yield '">'
                yield escape(environment.getattr(l_1_each, 'number'))
                yield '</span></td><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'When', _loop_vars=_loop_vars))
                yield '" class="when">'
                yield escape(environment.getattr(l_1_each, 'when'))
                yield '</td><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Where', _loop_vars=_loop_vars))
                yield '" class="key">'
                yield escape(environment.getattr(l_1_each, 'place'))
                yield '</td><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'What happened', _loop_vars=_loop_vars))
                yield '">'
                yield escape(environment.getattr(l_1_each, 'what'))
                yield '</td><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Source', _loop_vars=_loop_vars))
                yield '" class="source">'
                if environment.getattr(l_1_each, 'leads_to'):
                    pass
                    yield '<a href="#'
                    yield escape(environment.getattr(l_1_each, 'leads_to'))
                    yield '">'
                    yield escape(environment.getattr(l_1_each, 'source'))
                    yield '</a>'
                else:
                    pass
                    yield escape(environment.getattr(l_1_each, 'source'))
                yield '</td></tr>\n'
            l_1_each = missing
            yield '</tbody>\n</table>\n'
        if (environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'windows') and t_2(context.eval_ctx, t_4(context, environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'charts'), 'areas'))):
            pass
            yield '<p class="note">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'While its history was recorded, memory is divided by what allocated it; the budget above divides it by what held it at the failure, where that is known.'))
            yield '</p>\n'
        def t_6(fiter):
            for l_1_chart in fiter:
                if (not environment.getattr(l_1_chart, 'folded')):
                    yield l_1_chart
        for l_1_chart in t_6(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'charts')):
            _loop_vars = {}
            pass
            yield escape(context.call((undefined(name='course') if l_0_course is missing else l_0_course), l_1_chart, _loop_vars=_loop_vars))
            yield '\n'
        l_1_chart = missing
        def t_7(fiter):
            for l_1_chart in fiter:
                if environment.getattr(l_1_chart, 'folded'):
                    yield l_1_chart
        l_1_loop = missing
        for l_1_chart, l_1_loop in LoopContext(t_7(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'charts')), undefined):
            l_1_ngettext = resolve('ngettext')
            _loop_vars = {}
            pass
            if environment.getattr(l_1_loop, 'first'):
                pass
                yield '<details class="folded">\n<summary>'
                yield escape(context.call(environment.getattr(context.call((undefined(name='ngettext') if l_1_ngettext is missing else l_1_ngettext), '{number} more device', '{number} more devices', environment.getattr(l_1_loop, 'length'), _loop_vars=_loop_vars), 'format'), number=environment.getattr(l_1_loop, 'length'), _loop_vars=_loop_vars))
                yield '</summary>\n'
            yield escape(context.call((undefined(name='course') if l_0_course is missing else l_0_course), l_1_chart, _loop_vars=_loop_vars))
            yield '\n'
            if environment.getattr(l_1_loop, 'last'):
                pass
                yield '</details>\n'
        l_1_loop = l_1_chart = l_1_ngettext = missing
        yield '</section>\n\n'
        if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'incidents'):
            pass
            yield '<section aria-labelledby="incidents">\n<h2 id="incidents">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Incidents'))
            yield '</h2>\n<p class="note">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Latest first. This report is about the first.'))
            yield '</p>\n<table class="rows">\n<thead><tr><th scope="col">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'When'))
            yield '</th><th scope="col">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Where'))
            yield '</th><th scope="col">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'What the input says'))
            yield '</th><th scope="col" class="number">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Asked for'))
            yield '</th>'
            if (t_1(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'incidents')) > 1):
                pass
                yield '<th scope="col">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Verdict and cause'))
                yield '</th>'
            yield '<th scope="col">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Source'))
            yield '</th></tr></thead>\n<tbody>\n'
            l_1_loop = missing
            for l_1_each, l_1_loop in LoopContext(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'incidents'), undefined):
                _loop_vars = {}
                pass
                yield '<tr id="incident-'
                yield escape(environment.getattr(l_1_loop, 'index'))
                yield '"><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'When', _loop_vars=_loop_vars))
                yield '">'
                yield escape(environment.getattr(l_1_each, 'when'))
                yield '</td><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Where', _loop_vars=_loop_vars))
                yield '" class="key">'
                yield escape(environment.getattr(l_1_each, 'where'))
                yield '</td><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'What the input says', _loop_vars=_loop_vars))
                yield '">'
                yield escape(environment.getattr(l_1_each, 'cause'))
                yield '</td><td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Asked for', _loop_vars=_loop_vars))
                yield '" class="number">'
                yield escape((environment.getattr(l_1_each, 'requested') or context.call((undefined(name='_') if l_0__ is missing else l_0__), 'not measured', _loop_vars=_loop_vars)))
                yield '</td>'
                if (t_1(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'incidents')) > 1):
                    pass
                    yield '<td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Verdict and cause', _loop_vars=_loop_vars))
                    yield '">'
                    yield escape(t_3(environment.getattr(l_1_each, 'why')))
                    yield '</td>'
                yield '<td data-label="'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Source', _loop_vars=_loop_vars))
                yield '" class="source">'
                if environment.getattr(l_1_each, 'leads_to'):
                    pass
                    yield '<a href="#'
                    yield escape(environment.getattr(l_1_each, 'leads_to'))
                    yield '">'
                    yield escape(environment.getattr(l_1_each, 'source'))
                    yield '</a>'
                else:
                    pass
                    yield escape(environment.getattr(l_1_each, 'source'))
                yield '</td></tr>\n'
            l_1_loop = l_1_each = missing
            yield '</tbody>\n</table>\n</section>\n'

    blocks = {}
    debug_info = '1=38&2=40&3=48&4=50&5=73&7=76&8=81&10=89&11=93&12=98&13=102&15=107&16=112&18=120&19=125&25=140&26=142&27=145&29=147&31=150&33=160&34=164&39=197&40=200&42=202&43=209&45=212&46=221&48=224&50=226&51=228&57=233&59=236&60=238&62=240&64=257&65=261'
    return locals()


def window(environment):
    from jinja2.runtime import LoopContext, Macro, Markup, Namespace, TemplateNotFound, TemplateReference, TemplateRuntimeError, Undefined, escape, identity, internalcode, markup_join, missing, str_join
    name = 'window.html.j2'

    def root(context, missing=missing, environment=environment):
        resolve = context.resolve_or_missing
        undefined = environment.undefined
        concat = environment.concat
        cond_expr_undefined = Undefined
        if 0: yield None
        l_0_r = resolve('r')
        l_0__ = resolve('_')
        l_0_m = missing
        try:
            t_1 = environment.filters['length']
        except KeyError:
            @internalcode
            def t_1(*unused):
                raise TemplateRuntimeError("No filter named 'length' found.")
        try:
            t_2 = environment.filters['prose']
        except KeyError:
            @internalcode
            def t_2(*unused):
                raise TemplateRuntimeError("No filter named 'prose' found.")
        try:
            t_3 = environment.filters['sentences']
        except KeyError:
            @internalcode
            def t_3(*unused):
                raise TemplateRuntimeError("No filter named 'sentences' found.")
        pass
        l_0_m = context.vars['m'] = environment.get_template('macros.html.j2', 'window.html.j2').make_module(context.get_all(), True, {'m': l_0_m})
        context.exported_vars.discard('m')
        if environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'windows'):
            pass
            yield '<section class="window" aria-labelledby="window">\n<h2 id="window">'
            yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Live memory over the recorded window'))
            yield '</h2>\n'
            l_1_loop = missing
            for l_1_each, l_1_loop in LoopContext(environment.getattr((undefined(name='r') if l_0_r is missing else l_0_r), 'windows'), undefined):
                l_1_stacked_areas = resolve('stacked_areas')
                l_1_stacked_lines = resolve('stacked_lines')
                _loop_vars = {}
                pass
                yield '<article id="window-of-'
                yield escape(environment.getattr(l_1_loop, 'index'))
                yield '">\n<h3>'
                yield escape(environment.getattr(l_1_each, 'where'))
                yield '</h3>\n'
                for l_2_sentence in environment.getattr(l_1_each, 'sentences'):
                    _loop_vars = {}
                    pass
                    yield '<p>'
                    yield escape(t_2(l_2_sentence))
                    yield '</p>\n'
                l_2_sentence = missing
                yield '</article>\n<figure>\n'
                yield escape(context.call((undefined(name='stacked_areas') if l_1_stacked_areas is missing else l_1_stacked_areas), l_1_each, markup_join(('window-', environment.getattr(l_1_loop, 'index'), )), _loop_vars=_loop_vars))
                yield '\n<ul class="legend">\n'
                for l_2_area in environment.getattr(l_1_each, 'areas'):
                    l_2_svg = resolve('svg')
                    _loop_vars = {}
                    pass
                    yield '<li>'
                    yield escape(context.call(environment.getattr((undefined(name='svg') if l_2_svg is missing else l_2_svg), 'chip'), environment.getattr(l_2_area, 'category'), _loop_vars=_loop_vars))
                    yield '<span>'
                    yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), '{names}: at most {size}', _loop_vars=_loop_vars), 'format'), names=environment.getattr(l_2_area, 'names'), size=context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'size'), environment.getattr(l_2_area, 'most'), _loop_vars=_loop_vars), _loop_vars=_loop_vars))
                    yield '</span></li>\n'
                l_2_area = l_2_svg = missing
                yield '</ul>\n<p class="note">'
                yield escape(t_3([context.call((undefined(name='_') if l_0__ is missing else l_0__), 'What memory is for is read from the stacks that allocated it, and from when it was freed again.', _loop_vars=_loop_vars), (context.call((undefined(name='_') if l_0__ is missing else l_0__), 'The second band is what the program annotated itself.', _loop_vars=_loop_vars) if environment.getattr(l_1_each, 'marks') else cond_expr_undefined("the inline if-expression on line 19 in 'window.html.j2' evaluated to false and no else section was defined."))]))
                yield '</p>\n'
                if environment.getattr(l_1_each, 'how_phases'):
                    pass
                    yield '<p class="note">'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'How what the program did is known:', _loop_vars=_loop_vars))
                    yield '</p>\n<ul class="note">\n'
                    for l_2_how in environment.getattr(l_1_each, 'how_phases'):
                        _loop_vars = {}
                        pass
                        yield '<li>'
                        yield escape(l_2_how)
                        yield '</li>\n'
                    l_2_how = missing
                    yield '</ul>\n'
                yield '</figure>\n'
                if (t_1(environment.getattr(l_1_each, 'lines')) > 1):
                    pass
                    yield '<h4>'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'By the line that allocated it', _loop_vars=_loop_vars))
                    yield '</h4>\n<figure>\n'
                    yield escape(context.call((undefined(name='stacked_lines') if l_1_stacked_lines is missing else l_1_stacked_lines), l_1_each, markup_join(('lines-', environment.getattr(l_1_loop, 'index'), )), _loop_vars=_loop_vars))
                    yield '\n<ul class="legend lines">\n'
                    for l_2_area in environment.getattr(l_1_each, 'lines'):
                        l_2_svg = resolve('svg')
                        _loop_vars = {}
                        pass
                        yield '<li>'
                        yield escape(context.call(environment.getattr((undefined(name='svg') if l_2_svg is missing else l_2_svg), 'chip'), environment.getattr(l_2_area, 'category'), _loop_vars=_loop_vars))
                        yield '<span>'
                        if environment.getattr(l_2_area, 'number'):
                            pass
                            yield escape(environment.getattr(l_2_area, 'number'))
                            yield ' · '
                        yield escape(context.call(environment.getattr(context.call((undefined(name='_') if l_0__ is missing else l_0__), '{names}: at most {size}', _loop_vars=_loop_vars), 'format'), names=environment.getattr(l_2_area, 'names'), size=context.call(environment.getattr((undefined(name='m') if l_0_m is missing else l_0_m), 'size'), environment.getattr(l_2_area, 'most'), _loop_vars=_loop_vars), _loop_vars=_loop_vars))
                        yield '</span></li>\n'
                    l_2_area = l_2_svg = missing
                    yield '</ul>\n</figure>\n'
                yield '<h4>'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'When most was live', _loop_vars=_loop_vars))
                yield '</h4>\n<table class="rows">\n<thead><tr><th scope="col">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Owner', _loop_vars=_loop_vars))
                yield '</th><th scope="col" class="number">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Size', _loop_vars=_loop_vars))
                yield '</th><th scope="col" class="wide"><span class="hidden">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Picture', _loop_vars=_loop_vars))
                yield '</span></th><th scope="col" class="number">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Share', _loop_vars=_loop_vars))
                yield '</th><th scope="col" class="number">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Blocks', _loop_vars=_loop_vars))
                yield '</th></tr></thead>\n<tbody>\n'
                for l_2_row in environment.getattr(l_1_each, 'at_peak'):
                    l_2_svg = resolve('svg')
                    _loop_vars = {}
                    pass
                    yield '<tr><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Owner', _loop_vars=_loop_vars))
                    yield '">'
                    yield escape(t_2(environment.getattr(l_2_row, 'owner')))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Size', _loop_vars=_loop_vars))
                    yield '" class="number">'
                    yield escape(environment.getattr(l_2_row, 'size'))
                    yield '</td><td class="wide">'
                    yield escape(context.call(environment.getattr((undefined(name='svg') if l_2_svg is missing else l_2_svg), 'share_bar'), environment.getattr(l_2_row, 'fraction'), environment.getattr(l_2_row, 'category'), _loop_vars=_loop_vars))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Share', _loop_vars=_loop_vars))
                    yield '" class="number">'
                    yield escape(environment.getattr(l_2_row, 'share'))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Blocks', _loop_vars=_loop_vars))
                    yield '" class="number">'
                    yield escape(environment.getattr(l_2_row, 'count'))
                    yield '</td></tr>\n'
                l_2_row = l_2_svg = missing
                yield '</tbody>\n</table>\n'
                if environment.getattr(l_1_each, 'rise'):
                    pass
                    yield '<article>\n<p>'
                    yield escape(t_2(environment.getattr(l_1_each, 'rise')))
                    yield '</p>\n<ul>\n'
                    for l_2_row in environment.getattr(l_1_each, 'risen'):
                        _loop_vars = {}
                        pass
                        yield '<li>'
                        yield escape(t_2(l_2_row))
                        yield '</li>\n'
                    l_2_row = missing
                    yield '</ul>\n</article>\n'
                yield '<h4>'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Who allocated, how often, and how long it lived', _loop_vars=_loop_vars))
                yield '</h4>\n<table class="rows">\n<thead><tr><th scope="col">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Owner', _loop_vars=_loop_vars))
                yield '</th><th scope="col" class="number">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Allocations', _loop_vars=_loop_vars))
                yield '</th><th scope="col" class="number">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Sizes', _loop_vars=_loop_vars))
                yield '</th><th scope="col" class="number">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'In all', _loop_vars=_loop_vars))
                yield '</th><th scope="col" class="number">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Most live', _loop_vars=_loop_vars))
                yield '</th><th scope="col" class="number">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Live at the end', _loop_vars=_loop_vars))
                yield '</th><th scope="col" class="number">'
                yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Lives (median)', _loop_vars=_loop_vars))
                yield '</th></tr></thead>\n<tbody>\n'
                for l_2_row in environment.getattr(l_1_each, 'turnover'):
                    _loop_vars = {}
                    pass
                    yield '<tr><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Owner', _loop_vars=_loop_vars))
                    yield '">'
                    yield escape(t_2(environment.getattr(l_2_row, 'owner')))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Allocations', _loop_vars=_loop_vars))
                    yield '" class="number">'
                    yield escape(environment.getattr(l_2_row, 'allocations'))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Sizes', _loop_vars=_loop_vars))
                    yield '" class="number">'
                    yield escape(environment.getattr(l_2_row, 'sizes'))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'In all', _loop_vars=_loop_vars))
                    yield '" class="number">'
                    yield escape(environment.getattr(l_2_row, 'allocated'))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Most live', _loop_vars=_loop_vars))
                    yield '" class="number">'
                    yield escape(environment.getattr(l_2_row, 'most_live'))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Live at the end', _loop_vars=_loop_vars))
                    yield '" class="number">'
                    yield escape(environment.getattr(l_2_row, 'at_end'))
                    yield '</td><td data-label="'
                    yield escape(context.call((undefined(name='_') if l_0__ is missing else l_0__), 'Lives (median)', _loop_vars=_loop_vars))
                    yield '" class="number">'
                    yield escape(environment.getattr(l_2_row, 'lives'))
                    yield '</td></tr>\n'
                l_2_row = missing
                yield '</tbody>\n</table>\n'
            l_1_loop = l_1_each = l_1_stacked_areas = l_1_stacked_lines = missing
            yield '</section>\n'

    blocks = {}
    debug_info = '1=32&2=34&4=37&5=40&6=46&7=48&8=50&9=54&13=58&15=60&16=65&19=71&20=73&21=76&23=78&24=82&29=87&30=90&32=92&34=94&35=99&40=110&42=112&44=122&45=127&49=147&51=150&53=152&54=156&59=161&61=163&63=177&64=181'
    return locals()


TEMPLATES = {
    'answer.html.j2': ('74f35f324d2c824700bf6e52fda59cbfd1e9e0315b2874db6b63b457cf12a436', answer),
    'failure.html.j2': ('cabccdbe6cfa6f5d3de73678a6695ea9bd44819e43e554347f4ceb2493e01fe8', failure),
    'findings.html.j2': ('d08dd023f3ab58b4f30033b5ccda242d571fe4402d9a565c72ef2093b9dc27bf', findings),
    'macros.html.j2': ('0ed8311547df47125524835aa38113bef172d4ed877060b5367ecb170eead1ae', macros),
    'records.html.j2': ('82d1278c89d4f937b940ba488e4e029c04255b5f65cffd53c203d710778ab6c6', records),
    'report.html.j2': ('c88bafbac25fb10bffd0d8e561e3741d7be934a390d4fdcb0cd591b11cb5c1a0', report),
    'surroundings.html.j2': ('540e570408885fbf3513e54cedb65a1b12c73d38c2486fc19aa1e32eebebb05c', surroundings),
    'timeline.html.j2': ('95b6192edbf85dd1a4be5af92227596867b73889993de7d1c10b60219b45ce6f', timeline),
    'window.html.j2': ('9ae5a76749ed5734302dedd7fc9a56dfdb59cbafedacec23b66e8147870f1c2c', window),
}
