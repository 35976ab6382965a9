import t from 'tap'
import { Expression, toCel } from '../../../../src/agentk/health/custom/cel.ts'
import { maxJoinedLength } from '../../../../src/agentk/health/custom/cel-functions.ts'
import { CustomRule } from '../../../../src/agentk/health/custom/custom-rule.ts'
import { type CustomRuleSource, customRuleSchema } from '../../../../src/agentk/health/custom/custom-rule-schema.ts'
import { CustomRules } from '../../../../src/agentk/health/custom/custom-rules.ts'
import { maxSteps, Steps } from '../../../../src/agentk/health/custom/steps.ts'
import { vendorRules } from '../../../../src/agentk/health/custom/vendors.ts'

const source = (more: Partial<Record<keyof CustomRuleSource, unknown>>): CustomRuleSource =>
  customRuleSchema.parse({ kind: 'example.com/Thing', rules: [{ when: 'true', verdict: 'Healthy' }], ...more })
const rule = (...rules: readonly { when: string; verdict: string; text?: string }[]) =>
  new CustomRule(source({ rules }))
const thing = (status: unknown, more: object = {}) => ({ apiVersion: 'example.com/v1', kind: 'Thing', status, ...more })

t.test('the first that is true decides; none is no verdict', async (t) => {
  const judged = rule(
    { when: "at(object, 'status.phase', '') == 'Down'", verdict: 'Degraded', text: "'it is ' + object.status.phase" },
    { when: "cond(object, 'Ready').status == 'True'", verdict: 'Healthy', text: "cond(object, 'Ready').message" },
  )
  const ready = { type: 'Ready', status: 'True', message: 'fine' }
  t.same(judged.judge(thing({ phase: 'Down', conditions: [ready] })).health, { status: 'Degraded', text: 'it is Down' })
  t.same(judged.judge(thing({ conditions: [ready] })).health, { status: 'Healthy', text: 'fine' })
  t.same(judged.judge(thing(undefined)), { health: undefined, errors: [] })
})

t.test('names stand for expressions, also for those before them', async (t) => {
  const judged = new CustomRule(
    source({
      let: { ready: 'object.status.ready', all: 'ready == object.spec.replicas' },
      rules: [{ when: 'all', verdict: 'Healthy', text: 'string(ready)' }],
    }),
  )
  t.same(judged.judge(thing({ ready: 3 }, { spec: { replicas: 3 } })).health, { status: 'Healthy', text: '3' })
  t.equal(judged.judge(thing({}, { spec: { replicas: 3 } })).health, undefined)
})

t.test('what has no value is false, and told', async (t) => {
  const judged = rule({ when: 'object.status.none > 1', verdict: 'Degraded' }, { when: 'true', verdict: 'Unknown' })
  const { health, errors } = judged.judge(thing({}))
  t.same(health, { status: 'Unknown', text: '' })
  t.equal(errors.length, 1)
})

t.test('a rule that cannot be read, or whose test fails, is not used and says so', async (t) => {
  t.throws(() => rule({ when: 'a +', verdict: 'Healthy' }), { message: /^rules\[0\]\.when: .*1:3/ })
  t.throws(() => new CustomRule(source({ let: { x: ')' } })), { message: /^let\.x: / })
  const tests = [{ object: thing({}), verdict: 'Degraded' }]
  t.throws(() => new CustomRule(source({ tests })), { message: 'tests[0]: Healthy, not Degraded' })
  const broken: string[] = []
  const rules = new CustomRules([source({ tests })], (kind, error) =>
    broken.push(`${kind}: ${(error as Error).message}`),
  )
  await rules.ready('example.com/Thing')
  await rules.ready('example.com/Thing')
  t.equal(rules.judge(thing({})), undefined)
  t.same(broken, ['example.com/Thing: tests[0]: Healthy, not Degraded'], 'once')
})

t.test('in the place of a rule that is broken is its last form, if that can be used', async (t) => {
  const broken: string[] = []
  const [a, b] = ['a.com/A', 'b.com/B']
  const named = (kind: string, verdict: string, more: object = {}) =>
    source({ kind, rules: [{ when: 'true', verdict }], ...more })
  const rules = new CustomRules(
    [named(a, 'Degraded', { let: { x: ')' } }), named(b, 'Degraded', { let: { x: ')' } }), named('c.com/C', 'Healthy')],
    (kind) => broken.push(kind),
  )
  const { good, broken: told } = await rules.check([named(a, 'Suspended'), named(b, 'Suspended', { let: { y: '(' } })])
  t.same(
    good.map(({ kind }) => kind),
    ['c.com/C'],
  )
  t.match(told, [
    { kind: a, problem: /^let\.x: /, isKept: true },
    { kind: b, problem: /^let\.x: /, isKept: false },
  ])
  t.same(broken, [b], 'which has no rule now')
  for (const kind of [a, b, 'c.com/C']) await rules.ready(kind)
  const status = (group: string, kind: string) => rules.judge({ apiVersion: `${group}/v1`, kind })?.health?.status
  t.same([status('a.com', 'A'), status('b.com', 'B'), status('c.com', 'C')], ['Suspended', undefined, 'Healthy'])
})

t.test('what rules cost is counted, however it is hidden', async (t) => {
  const list = Array.from({ length: 200 }, (_, i) => i)
  const walks = 'object.list.all(x, object.list.all(y, x + y >= 0))'
  for (const when of [walks, `${walks} || true`, `has(object.none) && false || ${walks}`]) {
    const { health, errors } = rule({ when, verdict: 'Healthy' }).judge(thing({}, { list }))
    t.equal(health, undefined, when)
    t.match(errors, [new RegExp(`more than ${maxSteps} steps`)])
  }
  t.equal(
    rule({ when: walks, verdict: 'Healthy' }).judge(thing({}, { list: list.slice(0, 50) })).health?.status,
    'Healthy',
  )
  t.throws(() => rule({ when: 'object.a.all(x, x.all(y, y.all(z, z)))', verdict: 'Healthy' }), {
    message: /macros more than 2 deep/,
  })
  t.throws(() => new Expression(`'${'x'.repeat(3000)}'`), { message: /more than 2048 characters/ })
  const deep = `object.a.map(x, [x, {'b': object.a.filter(y, y.exists(z, z))}])`
  t.throws(() => new Expression(deep), { message: /macros more than 2 deep/ }, 'in lists and maps too')
})

t.test('what grows by itself, and long texts looked at again and again, are steps too', async (t) => {
  const doubled = (first: string, how: (name: string) => string) => {
    const names = Array.from({ length: 24 }, (_, i) => [`a${i + 1}`, how(`a${i}`)])
    return { a0: first, ...Object.fromEntries(names) }
  }
  const plus = (name: string) => `${name} + ${name}`
  const judged = (let_: object, when: string, status: object = {}) =>
    new CustomRule(source({ let: let_, rules: [{ when, verdict: 'Healthy' }] })).judge(thing(status)).errors.join()
  const spent = new RegExp(`more than ${maxSteps} steps`)
  t.match(judged(doubled('[1, 2]', plus), '5 in a24'), spent)
  t.match(judged(doubled("'12345678'", plus), "a24.contains('x')"), spent)
  t.match(judged(doubled("b'12345678'", plus), 'a24 == a23'), spent)
  const nested = doubled('[1]', (name) => `[${name}, ${name}]`)
  t.match(judged(nested, 'a24 == [a23, [a22, a22]]'), spent)
  const long = { text: 'x'.repeat(100_000), list: Array.from({ length: 1000 }, (_, i) => i) }
  t.match(judged({}, 'object.status.list.all(one, object.status.text.size() > one)', long), spent)
  t.equal(judged({}, "object.status.text.contains('y') || object.status.list == [1]", long), '')
})

t.test('whole numbers are ints; what a rule must not see is gone', async (t) => {
  const metadata = {
    managedFields: [{}],
    annotations: { 'kubectl.kubernetes.io/last-applied-configuration': '{"data":"secret"}', other: 'y' },
  }
  const value = (text: string) =>
    new Expression(text).evaluate({ object: toCel(thing({ half: 0.5, one: 1 }, { metadata })) }, new Steps())
  t.equal(value('object.status.one + 1'), 2n)
  t.equal(value('object.status.half * 2.0'), 1)
  t.equal(value('has(object.metadata.managedFields)'), false)
  t.equal(value(`string(object.metadata.annotations.size()) + object.metadata.annotations.other`), '1y')
})

t.test('texts are joined and cut, as far as bounds go', async (t) => {
  const names = ['first', 'second', 'third']
  const value = (text: string, status: object = { names }) =>
    new Expression(text).evaluate({ object: toCel(thing(status)) }, new Steps())
  t.equal(value(`object.status.names.join(', ')`), 'first, second, third')
  t.equal(value(`object.status.names.map(name, name.substring(0, 2)).join()`), 'fiseth')
  t.equal(value(`'a separator'.substring(2)`), 'separator')
  t.equal(value(`object.status.names.join('-')`, { names: [] }), '')
  t.throws(() => value(`'short'.substring(9)`), { message: /out of bounds/ })
  t.throws(() => value(`object.status.names.join()`, { names: ['one', 2] }), { message: /no string/ })
  const long = 'x'.repeat(maxJoinedLength)
  t.equal(value(`object.status.names.join('-')`, { names: [long, long] }), long)
  const many = Array.from({ length: 200 }, () => '')
  const again = 'object.status.names.map(name, object.status.names.join())[0]'
  t.throws(() => value(again, { names: many }), { message: new RegExp(`more than ${maxSteps} steps`) })
})

t.test('a name that expressions cannot use is refused', async (t) => {
  for (const name of ['in', 'for', 'namespace', 'true', 'object']) {
    t.throws(() => source({ let: { [name]: '1' } }), { message: /a name that expressions cannot use/ }, name)
  }
  t.equal(new CustomRule(source({ let: { inner: '1', objects: '2' } })).judge(thing({})).health?.status, 'Healthy')
})

t.test('an object that is nested too deep has no verdict, and says so', async (t) => {
  const deep = JSON.parse(`${'['.repeat(50_000)}${']'.repeat(50_000)}`)
  const { health, errors } = rule({ when: 'true', verdict: 'Healthy' }).judge(thing({ deep }))
  t.equal(health, undefined)
  t.match(errors, [/stack/])
})

t.test('an exact kind goes before one with a star', async (t) => {
  const named = (kind: string, verdict: string) => source({ kind, rules: [{ when: 'true', verdict }] })
  const rules = new CustomRules(
    [
      named('*.example.com/*', 'Degraded'),
      named('a.example.com/B*', 'Progressing'),
      named('a.example.com/Bee', 'Healthy'),
    ],
    () => t.fail(),
  )
  const status = (group: string, kind: string) => rules.judge({ apiVersion: `${group}/v1`, kind })?.health?.status
  for (const kind of ['a.example.com/Bee', 'a.example.com/Cee', 'example.com/Cee']) await rules.ready(kind)
  t.equal(status('a.example.com', 'Bee'), 'Healthy')
  t.equal(status('a.example.com', 'Cee'), 'Degraded')
  t.equal(status('example.com', 'Cee'), undefined)
  t.ok(rules.has('a.example.com/Cee'))
  t.notOk(rules.has('example.com/Cee'))
})

t.test('rules of vendors can all be used, and keep their own tests', async (t) => {
  const rules = await vendorRules()
  t.ok(rules.length > 0)
  for (const one of rules) t.doesNotThrow(() => new CustomRule(one), one.kind)
  const kinds = rules.map(({ kind }) => kind)
  t.same(
    kinds.filter((kind, i) => kinds.indexOf(kind) !== i),
    [],
    'each kind once',
  )
})

t.test('what functions read is counted: none keeps a processor busy', async (t) => {
  const list = (length: number, of: unknown = 1) => Array.from({ length }, () => of)
  const keys = (length: number) => Object.fromEntries(list(length).map((_, i) => [`k${i}`, '']))
  const body = (operator: string, one: string) => list(120, one).join(operator)
  const conditions = list(20_000).map((_, i) => ({ type: `t${i}` }))
  const hostile: Record<string, readonly [when: string, object: object]> = {
    'at, 500 long paths': [
      'object.l.exists(k, at(object, object.p, 0) == 1)',
      { l: list(500), p: '.'.repeat(500_000) },
    ],
    'at, 4,500 long paths': [
      'object.data.exists(k, at(object, object.data.p, 0) == 1)',
      { data: { ...keys(4500), p: '.'.repeat(100_000) } },
    ],
    'cond, 20,000 conditions': [
      `object.l.exists(k, cond(object, 'none').status == 'x')`,
      { l: list(500), status: { conditions } },
    ],
    'a long body of a macro': [`object.l.all(x, ${body(' && ', 'x==x')})`, { l: list(9999) }],
    'errors in a body': [`object.l.exists(x, ${body(' || ', 'x.a')})`, { l: list(9999) }],
    'numbers sought in maps of texts': [
      `object.l.exists(x, ${body(' || ', 'object.d[1]')})`,
      { l: list(9000), d: keys(20_000) },
    ],
    timezones: [
      `object.l.exists(x, timestamp('2024-01-01T00:00:00Z').getHours('Europe/Berlin') == 99)`,
      { l: list(4000) },
    ],
    'patterns that repeat': [`object.l.exists(x, 'a'.matches('${body('', 'a{1000}')}'))`, { l: list(50) }],
    'patterns of an object': [`'a'.matches(object.p)`, { p: '\\pL'.repeat(40) }],
    'a pattern that backtracks': [`object.t.matches('(a|b)*a(a|b){100}[cd]')`, { t: 'abbab'.repeat(60_000) }],
    'contains at each place': [
      'object.t.contains(object.u)',
      { t: 'a'.repeat(300_000), u: `${'a'.repeat(100_000)}b${'a'.repeat(100_000)}` },
    ],
  }
  for (const [name, [when, object]] of Object.entries(hostile)) {
    const before = process.cpuUsage()
    const { health, errors } = rule({ when, verdict: 'Healthy' }).judge(thing(undefined, object))
    const { user, system } = process.cpuUsage(before)
    t.equal(health, undefined, name)
    t.match(errors, [new RegExp(`more than ${maxSteps} steps`)], name)
    t.comment(`${name}: ${Math.round((user + system) / 1000)} ms`)
  }
})

t.test('an expression makes no message of protobuf', async (t) => {
  t.throws(() => rule({ when: 'google.protobuf.ListValue{values: object.l}.size() > 0', verdict: 'Healthy' }), {
    message: /a message cannot be made: google.protobuf.ListValue/,
  })
})
