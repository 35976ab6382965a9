import t from 'tap'
import type { ApiLane } from '../../../../../../src/agentk/cluster/background-requests.ts'
import type { CompareOptions } from '../../../../../../src/agentk/modules/gitops/drift/compare-answers.ts'
import { explain } from '../../../../../../src/agentk/modules/gitops/drift/explain.ts'
import type { Reference } from '../../../../../../src/agentk/modules/gitops/drift/suspect.ts'
import { fieldsHash } from '../../../../../../src/agentk/modules/gitops/live/managed-fields.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { type Entry, entry, id, isAdder, leaf, manager, object, ownEntry } from './managed.ts'

/** Comparisons with a scripted API server. */

const { signal } = new AbortController()
const kind = {
  group: '',
  version: 'v1',
  kind: 'ConfigMap',
  plural: 'configmaps',
  isNamespaced: true,
  isWritable: true,
  isListable: true,
}
const secrets = { ...kind, kind: 'Secret', plural: 'secrets' }
const own = { 'f:data': { 'f:a': leaf, 'f:b': leaf } }
const ownB = { 'f:data': { 'f:b': leaf } }
const ofA = { 'f:data': { 'f:a': leaf } }
const git = { data: { a: '1', b: '2' } }
const time = (second: number) => `2026-06-01T00:00:0${second}Z`
const reference: Reference = {
  uid: 'u1',
  owner: id,
  digest: 'd1',
  fields: fieldsHash(own),
  time: time(0),
  generation: 0,
}

interface Answer {
  readonly status: number
  readonly body: unknown
}

interface Script {
  /** answers in order; the last one again and again */
  readonly dry: readonly Answer[]
  readonly live: readonly Answer[]
  readonly options?: Partial<CompareOptions>
  readonly of?: typeof kind
  readonly isScaled?: boolean
  readonly atMs?: number
}

async function play(script: Script) {
  const sent: string[] = []
  const bodies: unknown[] = []
  const lane: ApiLane = {
    json: async (method, path, body, _signal, { contentType = '' } = {}) => {
      sent.push(`${method} ${path}${contentType && ` ${contentType}`}`)
      if (body !== undefined) bodies.push(body)
      const answers = method === 'GET' ? script.live : script.dry
      const count = sent.filter((one) => one.startsWith(method)).length
      return answers[Math.min(count, answers.length) - 1] as Answer
    },
  }
  const asked: string[] = []
  const scalers = {
    pathOf: async () => {
      asked.push('pathOf')
      return 'spec.replicas'
    },
    of: async () => {
      asked.push('of')
      return script.isScaled ? ('yes' as const) : ('no' as const)
    },
  }
  const dryLane: ApiLane = { json: (method, path, ...rest) => lane.json(method, `${path}&dryRun=All`, ...rest) }
  const clock = new ManualClock(script.atMs ?? Date.parse(time(9)))
  const of = script.of ?? kind
  const key = { group: of.group, kind: of.kind, namespace: 'shop', name: 'web' }
  const found = await explain(
    { lane, dryLane, scalers, clock },
    { key, kind: of, object: { kind: of.kind, ...git }, reference },
    { manager, isAdder, ignoredBy: () => undefined, ...script.options },
    signal,
  )
  return { found, sent, bodies, asked }
}

const ok = (content: object, managedFields: readonly Entry[], metadata: object = {}, status = 200) => [
  { status, body: object(content, managedFields, metadata) },
]
const inOrder = ok(git, [ownEntry(own)])
const drifted = {
  dry: ok(git, [ownEntry(own, { time: time(5) })]),
  live: ok({ data: { a: '9', b: '2' } }, [ownEntry(ownB), entry('ed', ofA, { time: time(4) })]),
}
const status = (code: number, message: string, more: object = {}) => [
  { status: code, body: { kind: 'Status', code, message, ...more } },
]

t.test('a forced dry-run apply as the own manager, then a GET, and no more', async (t) => {
  const { found, sent, bodies, asked } = await play({ dry: inOrder, live: inOrder })
  t.match(found, { kind: 'inOrder', hasLostFields: false, differences: { listed: [], more: 0 } })
  t.notOk('again' in found)
  const path = '/api/v1/namespaces/shop/configmaps/web'
  t.strictSame(sent, [
    `PATCH ${path}?fieldManager=${manager}&force=true&dryRun=All application/apply-patch+yaml`,
    `GET ${path}`,
  ])
  t.strictSame(bodies, [{ kind: 'ConfigMap', ...git }])
  t.strictSame(asked, [], 'nothing concerns replicas')
})

t.test('a change: path, values, manager and time', async (t) => {
  const { found } = await play(drifted)
  const by = { manager: 'ed', operation: 'Update', subresource: '', time: time(4) }
  t.match(found, {
    kind: 'drifted',
    differences: { listed: [{ path: '.data.a', kind: 'changed', before: '"1"', after: '"9"', by }], more: 0 },
    ignored: { listed: [], more: 0 },
  })
})

t.test('it is absent, made again, or being deleted', async (t) => {
  const notFound = status(404, 'configmaps "web" not found', { details: { name: 'web', kind: 'configmaps' } })
  const made = ok(git, [ownEntry(own)], {}, 201)
  const listed = [{ path: '', kind: 'gone', by: 'unknown' }]
  t.match((await play({ dry: made, live: notFound })).found, { kind: 'drifted', differences: { listed, more: 0 } })
  const noNamespace = status(404, 'namespaces "shop" not found', { details: { name: 'shop', kind: 'namespaces' } })
  t.match((await play({ dry: noNamespace, live: notFound })).found, { kind: 'drifted', differences: { listed } })
  const refused = status(422, 'it is invalid')
  t.match((await play({ dry: refused, live: notFound })).found, { kind: 'drifted' }, 'whatever the dry run says')
  const again = await play({ dry: [...made, ...inOrder], live: inOrder })
  t.match([again.found, again.sent.length], [{ kind: 'inOrder' }, 4], 'made between the two calls')
  const other = ok(git, [ownEntry(own)], { uid: 'u2' })
  t.match((await play({ dry: other, live: other })).found, {
    kind: 'drifted',
    differences: { listed: [{ path: '.metadata.uid', kind: 'changed', before: '"u1"', after: '"u2"', by: 'unknown' }] },
  })
  const all = { ignoredBy: () => 'all' }
  t.match((await play({ dry: other, live: other, options: all })).found, { kind: 'drifted' }, 'no rule ignores that')
  const ending = ok(git, [ownEntry(own)], { deletionTimestamp: time(3) })
  t.strictSame((await play({ dry: ending, live: ending })).found, { kind: 'beingDeleted' })
})

t.test('a kind that is not served is no missing object', async (t) => {
  const unserved = [{ status: 404, body: undefined }]
  t.match((await play({ dry: unserved, live: unserved })).found, {
    kind: 'notComparable',
    problem: { kind: 'absent', text: 'the API server answered 404' },
  })
})

t.test('a refusal is not "in order"', async (t) => {
  const down = 'Internal error occurred: failed calling webhook "a.b.io": failed to call webhook: Post "https://x": EOF'
  for (const [answer, kind, text] of [
    [status(403, 'configmaps "web" is forbidden: User "u" cannot patch resource'), 'denied', /cannot patch/],
    [status(422, 'ConfigMap "web" is invalid: data: Invalid value: "x": no'), 'invalid', /Invalid value: …/],
    [status(500, down), 'webhook', /failed calling webhook "a\.b\.io"/],
    [status(500, '.spec.timeout: field not declared in schema'), 'invalid', /not declared in schema/],
    [status(429, 'too many requests'), 'unavailable', /too many/],
    [ok(git, [entry('other', own)]), 'invalid', /no fields of agentk-42-7/],
    [[{ status: 200, body: undefined }], 'invalid', /no fields of agentk-42-7/],
  ] as const) {
    const { found } = await play({ dry: answer, live: inOrder })
    t.match(found, { kind: 'notComparable', problem: { kind, text }, live: { metadata: {} } })
  }
  const unreadable = await play({ dry: inOrder, live: status(403, 'User "u" cannot get resource') })
  t.match(unreadable.found, { kind: 'notComparable', problem: { kind: 'denied' } })
  t.notOk('live' in unreadable.found)
  const page = await play({ dry: inOrder, live: [{ status: 200, body: undefined }] })
  t.match(page.found, { kind: 'notComparable', problem: { kind: 'unavailable', text: /no object/ } })
})

t.test('a refusal of a Secret shows no value and no key', async (t) => {
  const details = (causes: readonly object[]) => ({ details: { name: 'web', group: '', kind: 'Secret', causes } })
  const cause = (field: string) => ({ reason: 'FieldValueInvalid', message: 'Invalid value: "hunter2"', field })
  const causes = [
    cause('data[.dockerconfigjson]'),
    cause('data.password'),
    cause('stringData[password]'),
    cause('type'),
  ]
  for (const answer of [
    status(422, 'Secret "web" is invalid: data[password]: Invalid value: "hunter2"', details(causes)),
    status(403, 'admission webhook "a.b.io" denied the request: password hunter2 is weak'),
    status(422, `ValidatingAdmissionPolicy 'p' denied request: password hunter2`),
    status(500, 'Internal error occurred: failed calling webhook "a.b.io": an error ("password hunter2") has …'),
    status(400, 'Secret in version "v1" cannot be handled: hunter2'),
    status(500, 'password: hunter2'),
  ]) {
    const { found } = await play({ dry: answer, live: inOrder, of: secrets })
    t.match(found, { kind: 'notComparable', problem: { text: /./ } })
    if (found.kind === 'notComparable') t.notMatch(JSON.stringify(found.problem), /hunter2|password|dockerconfigjson/)
  }
  const { found } = await play({
    dry: status(403, 'secrets "web" is forbidden: User "u" cannot patch resource'),
    live: inOrder,
    of: secrets,
  })
  t.match(found, { problem: { text: /User "u" cannot patch/ } })
})

t.test('values and keys of a Secret', async (t) => {
  const { found } = await play({ ...drifted, of: secrets })
  t.match(found, {
    kind: 'drifted',
    differences: { listed: [{ path: '.data…', before: '***', after: '***', secretKey: 'a', by: { manager: 'ed' } }] },
  })
})

t.test('others write between the two calls: both are repeated, three times at most', async (t) => {
  const version = (resourceVersion: string, seconds: number) =>
    ok(git, [ownEntry(own), entry('robot', { 'f:data': { 'f:z': leaf } }, { time: time(seconds) })], {
      resourceVersion,
    })
  const [first, second, third] = [version('1', 1), version('2', 2), version('3', 3)]
  const once = await play({ dry: [...first, ...second], live: second })
  t.match([once.found.kind, once.sent.length], ['inOrder', 4])
  const always = await play({ dry: [...first, ...second, ...first], live: [...second, ...third, ...second] })
  t.match(always.found, { kind: 'notComparable', problem: { kind: 'busy', text: /changed it 3 times/ } })
  t.equal(always.sent.length, 6)
  const stale = await play({ dry: [...status(409, 'modified', { reason: 'Conflict' }), ...inOrder], live: inOrder })
  t.match([stale.found.kind, stale.sent.length], ['inOrder', 4])
})

t.test(
  'a status that is written meanwhile is no reason to repeat, nor the fields that the dry run takes',
  async (t) => {
    const busy = (second: number) => entry('kcm', { 'f:status': leaf }, { subresource: 'status', time: time(second) })
    const dry = ok(git, [ownEntry(own, { time: time(5) }), busy(5)], { resourceVersion: '8' })
    const ed = entry('ed', ofA, { time: time(4) })
    const live = ok({ data: { a: '9', b: '2' } }, [ownEntry(ownB), ed, busy(6)], { resourceVersion: '9' })
    const { found, sent } = await play({ dry, live })
    t.match([found.kind, sent.length], ['drifted', 2])
  },
)

t.test('owners that were erased: the dry run makes up an owner of all that was there', async (t) => {
  const dry = ok(git, [ownEntry(own, { time: time(5) }), entry('before-first-apply', { 'f:data': leaf })])
  const { found, sent } = await play({ dry, live: ok({ data: { a: '9', b: '2' } }, []) })
  t.match([found, sent.length], [{ kind: 'drifted', differences: { listed: [{ path: '.data.a', by: 'unknown' }] } }, 2])
})

t.test('the newest second of others is not over: once more after it', async (t) => {
  const at = (second: number, dryAt: number, atMs = Date.parse(time(9))) =>
    play({
      dry: ok(git, [ownEntry(own, { time: time(dryAt) })]),
      live: ok({ data: { a: '9', b: '2' } }, [ownEntry(ownB), entry('ed', ofA, { time: time(second) })]),
      atMs,
    }).then(({ found }) => ('again' in found ? found.again : undefined))
  t.equal(await at(4, 5), undefined, 'the dry run was made in a later second')
  t.equal(await at(5, 5, Date.parse(time(5)) + 500), Date.parse(time(6)))
  const ahead = Date.parse(time(6)) + 300
  t.equal(await at(5, 5, ahead), ahead + 1000, 'the clock is ahead: not at once, again and again')
  t.equal(await at(9, 5, Date.parse(time(3))), undefined, 'nobody waits for a forged time')
  const added = (atMs: number) => {
    const entries = [ownEntry(own), entry('kubectl-edit', { 'f:data': { 'f:z': leaf } }, { time: time(4) })]
    const live = ok({ data: { ...git.data, z: '1' } }, entries)
    return play({ dry: live, live, atMs }).then(({ found }) => found)
  }
  const first = await added(Date.parse(time(4)) + 998)
  t.match(first, {
    kind: 'drifted',
    again: Date.parse(time(5)),
    differences: { listed: [{ path: '.data.z', kind: 'added', after: '"1"', by: { manager: 'kubectl-edit' } }] },
  })
  t.notOk('again' in (await added(Date.parse(time(5)))), 'the clock decides if the dry run changes nothing')
  t.notOk('again' in (await added(Date.parse(time(5)) - 1)), 'the timer was early')
  // the source's own manager, in the second of another apply
  const frozen = (secondOfOwn: number) => ({
    dry: ok(git, [ownEntry(own, { time: time(6) })]),
    live: ok({ data: { a: '9', b: '2' } }, [ownEntry(own, { time: time(secondOfOwn) })]),
    atMs: Date.parse(time(6)) + 500,
  })
  t.match((await play(frozen(6))).found, { kind: 'drifted', again: Date.parse(time(7)) })
  t.notOk('again' in (await play(frozen(5))).found)
  // a status entry counts if it has changed one of the fields
  const byStatus = (fields: object) => {
    const odd = entry('odd', { ...fields, 'f:status': leaf }, { subresource: 'status', time: time(6) })
    const live = ok({ data: { a: '9', b: '2' } }, [
      ownEntry(ownB),
      entry('ed', { 'f:x': leaf }, { time: time(1) }),
      odd,
    ])
    return play({ dry: frozen(6).dry, live, atMs: Date.parse(time(6)) + 500 }).then(({ found }) => found)
  }
  t.match(await byStatus(ofA), { again: Date.parse(time(7)) })
  t.notOk('again' in (await byStatus({})))
})

t.test('a webhook that came later: `wouldChange`', async (t) => {
  const rewritten = { data: { a: 'ecr/1', b: '2' } }
  const dry = ok(rewritten, [ownEntry(own, { time: time(5) })])
  const { found } = await play({ dry, live: inOrder })
  t.match(found, {
    kind: 'wouldChange',
    differences: { listed: [{ path: '.data.a', before: '"ecr/1"', after: '"1"', by: 'unknown' }] },
  })
  t.notOk('again' in found)
  const both = ok({ data: { a: '1', b: '9' } }, [ownEntry(ofA), entry('ed', ownB, { time: time(4) })])
  const { found: drift } = await play({ dry, live: both })
  t.match(drift, { kind: 'drifted', differences: { listed: [{ path: '.data.b' }], more: 0 } })
  const forged = ok({ data: { a: '9', b: '2' } }, [ownEntry(own)])
  t.match((await play({ dry: inOrder, live: forged })).found, { kind: 'drifted' }, 'a forged entry is no webhook')
  const random = ok({ data: { a: 'x7', b: '2' } }, [ownEntry(own)])
  t.match((await play({ dry: ok({ data: { a: 'x8', b: '2' } }, [ownEntry(own)]), live: random })).found, {
    kind: 'wouldChange',
  })
  const late = ok({ data: { a: 'x7', b: '2' } }, [ownEntry(own, { time: time(3) })])
  t.match((await play({ dry: ok({ data: { a: 'x8', b: '2' } }, [ownEntry(own)]), live: late })).found, {
    kind: 'drifted',
  })
})

t.test('fields that the own manager has applied, and Git does not set', async (t) => {
  const item = { '.': leaf, 'f:name': leaf, 'f:value': leaf }
  const fields = { 'f:data': { ...own['f:data'], 'f:z': leaf }, 'f:env': { 'k:{"name":"A"}': item } }
  const dry = ok({ ...git, limit: 1 }, [ownEntry(own, { time: time(5) }), entry('ed', ofA)])
  const content = { data: { ...git.data, z: '1' }, env: [{ name: 'A', value: 'x' }], limit: 1 }
  const live = ok(content, [ownEntry(fields, { time: time(4) }), entry('ed', ofA)])
  t.match((await play({ dry, live })).found, {
    kind: 'drifted',
    differences: {
      listed: [
        { path: '.data.z', kind: 'changed', after: '"1"', by: 'unknown' },
        { path: '.env[name="A"]', kind: 'changed', after: '{"name":"A","value":"x"}', by: 'unknown' },
      ],
      more: 0,
    },
  })
  const reset = ok({ ...git, limit: 5 }, [ownEntry({ ...own, 'f:limit': leaf }, { time: time(4) })])
  t.match((await play({ dry, live: reset })).found, {
    kind: 'drifted',
    differences: { listed: [{ path: '.limit', kind: 'changed', before: '1', after: '5' }], more: 0 },
  })
  const sameValue = ok({ ...git, limit: 1 }, [ownEntry({ ...own, 'f:limit': leaf }), entry('ed', ofA)])
  t.match((await play({ dry, live: sameValue })).found, { kind: 'inOrder' }, 'an apply leaves the value')
  const forged = ok(git, [ownEntry({ ...own, 'f:nothing': leaf })])
  t.match((await play({ dry: inOrder, live: forged })).found, { kind: 'inOrder' }, 'a field that is not there')
})

t.test('fields that the source has lost at the same value', async (t) => {
  const live = ok(git, [ownEntry(ownB), entry('ed', ofA, { time: time(4) })])
  const dry = ok(git, [ownEntry(own, { time: time(5) })])
  t.match((await play({ dry, live })).found, { kind: 'inOrder', hasLostFields: true })
  const ignoredBy = (path: readonly string[]) => (path.at(-1) === 'f:a' ? 'rule' : undefined)
  t.match((await play({ dry, live, options: { ignoredBy } })).found, { kind: 'inOrder', hasLostFields: false })
})

t.test('an ignored field: its rule is asked with its path and its owners', async (t) => {
  const asked: unknown[] = []
  const ignoredBy = (path: readonly string[], managers: readonly string[]) => {
    asked.push([path, managers])
    return 'managers: [ed]'
  }
  const { found } = await play({ ...drifted, options: { ignoredBy } })
  t.match(found, {
    kind: 'inOrder',
    differences: { listed: [], more: 0 },
    ignored: { listed: [{ path: '.data.a', rule: 'managers: [ed]', by: { manager: 'ed' } }], more: 0 },
  })
  t.strictSame(asked[0], [['f:data', 'f:a'], ['ed']])
})

t.test('replicas of an autoscaler are left out, those of a person are not', async (t) => {
  const scaled = { 'f:spec': { 'f:replicas': leaf } }
  const scale = (isScaled: boolean, replicas: number) =>
    play({
      dry: ok({ spec: { replicas: 2 } }, [ownEntry(scaled, { time: time(5) })]),
      live: ok({ spec: { replicas } }, [
        ownEntry({ 'f:x': leaf }),
        entry('hpa', scaled, { subresource: 'scale', time: time(4) }),
      ]),
      isScaled,
    })
  const { found, asked } = await scale(true, 7)
  t.match(found, { kind: 'inOrder', hasLostFields: false })
  t.strictSame(asked, ['pathOf', 'of'])
  t.match((await scale(false, 7)).found, { kind: 'drifted', differences: { listed: [{ by: { manager: 'hpa' } }] } })
  t.match((await scale(true, 2)).found, { kind: 'inOrder', hasLostFields: false })
  t.match((await scale(false, 2)).found, { kind: 'inOrder', hasLostFields: true })
})

t.test('twenty differences are listed, the others are counted', async (t) => {
  const names = Array.from({ length: 50 }, (_, i) => `k${i}`)
  const fields = { 'f:data': Object.fromEntries(names.map((name) => [`f:${name}`, leaf])) }
  const data = (value: string) => ({ data: Object.fromEntries(names.map((name) => [name, value])) })
  const dry = ok(data('1'), [ownEntry(fields, { time: time(5) })])
  const live = ok(data('2'), [entry('ed', fields, { time: time(4) })])
  const { found } = await play({ dry, live })
  t.match(found, { kind: 'drifted', differences: { more: 30 } })
  t.equal('differences' in found && found.differences.listed.length, 20)
})

t.test('bad input: an object that is nested too deeply', async (t) => {
  const deep = Array.from({ length: 5000 }).reduce<object>((inner) => ({ x: inner }), {})
  const { found } = await play({ dry: ok({ data: { ...git.data, x: deep } }, [ownEntry(own)]), live: inOrder })
  t.match(found, { kind: 'notComparable', problem: { kind: 'invalid', text: /more than 1000 levels/ } })
})

t.test('what ends a comparison is thrown', async (t) => {
  const lane: ApiLane = { json: async () => Promise.reject(new Error('cut')) }
  const scalers = { pathOf: async () => undefined, of: async () => 'no' as const }
  const key = { group: '', kind: 'ConfigMap', namespace: 'shop', name: 'web' }
  const options = { manager, isAdder, ignoredBy: () => undefined }
  const components = { lane, dryLane: lane, scalers, clock: new ManualClock() }
  await t.rejects(explain(components, { key, kind, object: git, reference: undefined }, options, signal), /cut/)
})

t.test('what a tool has applied is compared with the object without that, if nobody writes it meanwhile', async (t) => {
  const applied = { 'f:data': { 'f:b': leaf, 'f:z': leaf } }
  const kubectl = entry('kubectl', applied, { operation: 'Apply', time: time(4) })
  const live = ok({ data: { ...git.data, z: '1' } }, [ownEntry(own), kubectl])
  const path = '/api/v1/namespaces/shop/configmaps/web'
  const none = await play({ dry: [...live, ...ok(git, [ownEntry(own)])], live })
  t.strictSame(
    none.sent.map((one) => one.split(' ')[1]),
    [
      `${path}?fieldManager=${manager}&force=true&dryRun=All`,
      path,
      `${path}?fieldManager=kubectl&force=true&dryRun=All`,
    ],
  )
  t.match(none.found, { kind: 'drifted', differences: { listed: [{ path: '.data.z', kind: 'added' }] } })
  t.match((await play({ dry: live, live })).found, { kind: 'inOrder' }, 'it has the value without that apply too')
  const written = ok({ data: { ...git.data, z: '1' } }, [ownEntry(own)], { resourceVersion: '8' })
  t.match((await play({ dry: [...live, ...written], live })).found, { kind: 'drifted' })
  t.match((await play({ dry: [...live, ...status(422, 'it is immutable')], live })).found, { kind: 'drifted' })
})
