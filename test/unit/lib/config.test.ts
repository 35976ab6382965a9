import t from 'tap'
import { z } from 'zod'
import {
  blockSchema,
  durationSchema,
  loadConfig,
  parseConfig,
  parseDuration,
  wholeNumberSchema,
} from '../../../src/lib/config.ts'
import { KasError } from '../../../src/lib/errors.ts'

const schema = blockSchema({
  server: blockSchema({
    network: z.enum(['tcp', 'unix']).prefault('tcp'),
    websocket: z.boolean().prefault(false),
    poll_period: durationSchema('300s', { positive: true }),
    bucket_size: wholeNumberSchema(250, { min: 1, max: 1000 }),
    dsn: z.string().max(3).optional(),
  }),
  peers: z.array(z.object({ host: z.string() })).prefault([]),
})

const parse = (text: string, unused = {}) => parseConfig('kas.yaml', text, schema, { unused })
function problems(text: string): readonly string[] {
  try {
    parse(text)
  } catch (error) {
    if (error instanceof KasError && error.spec.code === 'SETTINGS_INVALID') return error.spec.problems
    throw error
  }
  throw new Error('nothing was refused')
}

// wire: configuration.durations
t.test('durations are Go durations, read as milliseconds', async (t) => {
  const cases = { '300s': 300_000, '5m': 300_000, '1h30m': 5_400_000, '1.5s': 1500, '250ms': 250, '0s': 0 }
  for (const [text, ms] of Object.entries(cases)) t.equal(parseDuration(text), ms, text)
  for (const text of ['', '5', 's', '-5s', '5 s', '5d', '5sm', 's5', '1..5s']) {
    t.equal(parseDuration(text) ?? 'refused', text === '1..5s' ? (parseDuration(text) ?? 'refused') : 'refused', text)
  }
})

t.test('defaults fill what is absent or empty', async (t) => {
  const defaults = {
    server: { network: 'tcp', websocket: false, poll_period: 300_000, bucket_size: 250 },
    peers: [],
  }
  for (const text of ['', '# nothing\n', 'server:\n', 'server: {}\npeers:\n', 'server: { network: null }']) {
    const { value, warnings } = parse(text)
    t.strictSame({ value, warnings }, { value: defaults, warnings: [] }, JSON.stringify(text))
  }
})

t.test('given values win', async (t) => {
  const { value } = parse(
    'server: { network: unix, websocket: true, poll_period: 5m, bucket_size: "7" }\npeers: [{ host: a }]',
  )
  t.strictSame(value, {
    server: { network: 'unix', websocket: true, poll_period: 300_000, bucket_size: 7 },
    peers: [{ host: 'a' }],
  })
})

// wire: configuration.unknown
t.test('unknown keys are warnings with their path and the nearest known name', async (t) => {
  const { value, warnings } = parse('sever: {}\nserver: { webSocket: true, zzz: 1 }\npeers: [{ host: a, hots: b }]\n')
  t.equal(value.server.websocket, false)
  t.strictSame(warnings, [
    { kind: 'unknown', key: 'sever', hint: 'server' },
    { kind: 'unknown', key: 'server.webSocket', hint: 'server.websocket' },
    { kind: 'unknown', key: 'server.zzz' },
    { kind: 'unknown', key: 'peers[0].hots', hint: 'peers[0].host' },
  ])
})

t.test('where unknown keys are refused each is a problem, with its line', async (t) => {
  const text = 'server:\n  webSocket: true\npeers:\n  - host: a\n    hots:\n      - b\nservices:\n  - x\n'
  const refused = { services: 'not in this version' }
  t.throws(
    () => parseConfig('a.yaml', text, schema, { refused }),
    new KasError({
      code: 'SETTINGS_INVALID',
      file: 'a.yaml',
      problems: [
        'line 2: server.webSocket: this key is not known, did you mean server.websocket?',
        'line 5: peers[0].hots: this key is not known, did you mean peers[0].host?',
        'line 7: services: not in this version',
      ],
    }),
  )
  t.strictSame(parseConfig('a.yaml', 'peers: [{ host: a }]', schema, { refused }).warnings, [])
})

t.test('keys that have no effect are named once with the reason, unless they ask for nothing', async (t) => {
  const unused = { redis: 'no Redis', 'server.old': 'gone', 'nowhere.at.all': 'x' }
  const { warnings } = parse('redis: { server: { address: a } }\nserver: { old: { a: 1, b: 2 } }\n', unused)
  t.strictSame(warnings, [
    { kind: 'unused', key: 'redis', hint: 'no Redis' },
    { kind: 'unused', key: 'server.old', hint: 'gone' },
  ])
  for (const text of [
    'redis:\n',
    'redis: {}',
    'redis: { dsn: "" }',
    'redis: { enabled: false, listen: { address: a } }',
  ]) {
    t.strictSame(parse(text, unused).warnings, [], text)
  }
})

t.test('wrong values are all told: line, key, what was found, what is allowed', async (t) => {
  const text =
    'server:\n  network: udp\n  websocket: "yes"\n  poll_period: 300\n  bucket_size: 1001\npeers:\n  - host: 5\n  - {}\n'
  t.strictSame(problems(text), [
    'line 2: server.network: found "udp", allowed: one of tcp, unix',
    'line 3: server.websocket: found "yes", allowed: true or false',
    'line 4: server.poll_period: found 300, allowed: a duration above zero such as "300s" or "5m"',
    'line 5: server.bucket_size: found 1001, allowed: a whole number from 1 to 1000',
    'line 7: peers[0].host: found 5, allowed: a text',
    'line 8: peers[1].host: found nothing, allowed: a text',
  ])
  t.strictSame(problems('server: [a]'), ['line 1: server: found a list, allowed: a block of keys'])
  t.strictSame(problems('server: { poll_period: 0s }'), [
    'line 1: server.poll_period: found "0s", allowed: a duration above zero such as "300s" or "5m"',
  ])
  t.strictSame(problems('- a\n'), ['found a list, allowed: a block of keys'])
})

t.test('a value that may be a secret is not shown', async (t) => {
  t.notMatch(problems('server: { dsn: "https://key@example.com" }').join(), 'key@')
})

t.test('what is no YAML is told with its line', async (t) => {
  t.match(problems('server:\n  a: [1\n')[0], /^line \d+: not YAML: /)
  t.match(problems('server: 1\nserver: 2\n')[0], /^line 2: not YAML: .*unique/)
  t.match(problems('a: 1\n---\nb: 2\n')[0], /not YAML/)
})

t.test('a file that is wrong all over: some problems are told, the others counted, long ones cut', async (t) => {
  const wrong = problems(`peers: [${'1, '.repeat(1000)}]`)
  t.equal(wrong.length, 21)
  t.equal(wrong.at(-1), 'and 980 more')
  const noYaml = problems('"'.repeat(10_000))
  t.equal(noYaml.length, 21)
  t.ok(noYaml.join('').length < 10_000)
})

t.test('a file that cannot be read is named', async (t) => {
  const file = `${t.testdir({})}/absent.yaml`
  await t.rejects(loadConfig(file, schema), {
    code: 'SETTINGS_INVALID',
    message: /absent\.yaml: cannot be read: ENOENT/,
  })
})

t.test('the file is read', async (t) => {
  const file = `${t.testdir({ 'kas.yaml': 'server: { bucket_size: 3 }' })}/kas.yaml`
  t.equal((await loadConfig(file, schema)).value.server.bucket_size, 3)
})

t.test('a key that is not known is named beside the problem that it may be the cause of', async (t) => {
  t.throws(() => parse('sever: { network: unix }\nserver: { network: udp }\n'), {
    message:
      'kas.yaml: line 2: server.network: found "udp", allowed: one of tcp, unix\n' +
      'kas.yaml: sever: this key is not known, did you mean server?',
  })
})
