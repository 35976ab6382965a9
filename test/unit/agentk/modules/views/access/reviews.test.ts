import t, { type Test } from 'tap'
import { PresentKinds } from '../../../../../../src/agentk/modules/views/access/present-kinds.ts'
import { maxNamespacesAsked } from '../../../../../../src/agentk/modules/views/access/review-plan.ts'
import {
  maxCallers,
  Reviews,
  type ReviewsComponents,
} from '../../../../../../src/agentk/modules/views/access/reviews.ts'
import type { Visibility } from '../../../../../../src/agentk/modules/views/store/record.ts'
import { capturedLog } from '../../../../../support/captured-log.ts'
import { anyIdentity, identities } from '../../../../../support/identities.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { kinds } from '../../../../../support/views/records.ts'
import { ReviewDouble } from '../../../../../support/views/review-double.ts'
import { agent, settle, user } from '../../../../../support/views/view-stage.ts'

function start(t: Test, parts: Pick<Partial<ReviewsComponents>, 'identities'> = {}) {
  const clock = new ManualClock()
  const api = new ReviewDouble()
  const { log, lines } = capturedLog()
  const reviews = new Reviews({ api, clock, log, identities: anyIdentity, ...parts })
  const present = new PresentKinds(clock)
  t.teardown(() => reviews.close())
  const open = (caller = user('ann'), namespaces?: string[], what: 'objects' | 'events' = 'objects') => {
    const seen: Visibility[] = []
    const onVisibility = (visibility: Visibility) => seen.push(visibility)
    const access = reviews.open(caller, { what, namespaces: namespaces && new Set(namespaces) }, present, {
      onVisibility,
    })
    return { access, seen, latest: () => seen.at(-1) as Visibility }
  }
  const pass = (ms = 0) => settle(clock, ms)
  /** reviews asked for since the last call, in short */
  const asked = () =>
    api.asked.splice(0).map(({ review: { kind, spec } }) => {
      const { group = '', resource = '', namespace = '' } = spec.resourceAttributes ?? {}
      return kind === 'SelfSubjectRulesReview' ? `rules ${spec.namespace}` : `${group}/${resource} ${namespace}`.trim()
    })
  return { clock, api, lines, reviews, present, open, pass, asked }
}

t.test('who may list everything is asked for once', async (t) => {
  const { api, present, open, pass, asked } = start(t)
  api.rights.set('ann', [['*/*', '*']])
  present.add(kinds.pod, 'shop')
  const { latest } = open()
  await pass()
  t.strictSame(asked(), ['*/*'])
  t.ok(latest().mayList(kinds.node, '') && latest().mayListEvents('x') && latest().mayName('y'))
})

t.test('kinds in the whole cluster, then in namespaces; complete rules spare questions', async (t) => {
  const { api, present, open, pass, asked } = start(t)
  api.rights.set('ann', [
    ['apps/deployments', '*'],
    ['/pods', 'shop'],
  ])
  for (const namespace of ['shop', 'bank'])
    for (const kind of [kinds.deployment, kinds.pod, kinds.service]) present.add(kind, namespace)
  const { latest, seen } = open()
  await pass()
  t.strictSame(asked(), ['*/*', 'rules default', 'apps/deployments', 'rules shop', 'rules bank', '/pods shop'])
  t.equal(seen.length, 1)
  t.ok(latest().mayList(kinds.deployment, 'anywhere'))
  t.ok(latest().mayList(kinds.pod, 'shop'))
  t.notOk(latest().mayList(kinds.pod, 'bank'))
  t.notOk(latest().mayList(kinds.service, 'shop'))
  t.ok(latest().mayName('shop'))
  t.ok(latest().mayName('bank'), 'deployments may be listed there')
  t.notOk(latest().mayListEvents('shop'))
})

t.test('rules that are not complete hide nothing', async (t) => {
  const { api, present, open, pass, asked } = start(t)
  api.knowsRules = false
  api.rights.set('ann', [])
  present.add(kinds.deployment, 'shop')
  present.add(kinds.node, '')
  const { latest } = open(user('ann'), ['shop'])
  await pass()
  t.strictSame(asked(), ['*/*', 'rules default', 'apps/deployments', '/nodes', 'apps/deployments shop'])
  t.notOk(latest().mayList(kinds.deployment, 'shop'))
})

t.test('events are asked for by views of events alone', async (t) => {
  const { api, present, open, pass, asked } = start(t)
  api.rights.set('ann', [['/events', 'shop']])
  present.add(kinds.pod, 'shop')
  present.add({ ...kinds.pod, key: 'Event', plural: 'events' }, 'shop')
  const { latest } = open(user('ann'), undefined, 'events')
  await pass()
  t.strictSame(asked(), ['*/*', 'rules default', '/events shop'])
  t.ok(latest().mayListEvents('shop'))
  t.notOk(latest().mayListEvents('bank'))
})

t.test('as the caller, by headers; the agent as itself', async (t) => {
  const { api, open, pass } = start(t)
  const extra = [{ key: 'example.com/a', val: ['1', '2'] }]
  open({ as: 'user', user: { username: 'ann', groups: ['dev', 'ops'], uid: 'u1', extra } })
  open(agent)
  await pass()
  t.strictSame(api.asked[0]?.headers, [
    ...['Impersonate-User', 'ann', 'Impersonate-Group', 'dev', 'Impersonate-Group', 'ops', 'Impersonate-Uid', 'u1'],
    ...['Impersonate-Extra-Example.com%2fa', '1', 'Impersonate-Extra-Example.com%2fa', '2'],
  ])
  t.ok(api.asked.some(({ headers }) => headers.length === 0))
  const nobody = { as: 'user', user: { username: '', groups: [], uid: '', extra: [] } } as const
  t.throws(() => open(nobody), { code: 'FORBIDDEN' }, 'without a name he would be agentk')
  const own = { username: 'bot', groups: [], uid: '', extra: [] as [] }
  const nested = start(t, { identities: identities({ own }) })
  t.throws(() => nested.open(user('ann')), { code: 'STATUS' })
  nested.open(agent)
  await nested.pass()
  t.strictSame(nested.api.asked[0]?.headers, ['Impersonate-User', 'bot'])
})

t.test('nobody is asked for as whom agentk may not act', async (t) => {
  const { open, api, pass } = start(t, {
    identities: identities({ may: { callers: 'any', kas: new Set(['user:bob']) } }),
  })
  const caller = (username: string, groups: string[] = []) =>
    ({ as: 'user', user: { username, groups, uid: '', extra: [] } }) as const
  const masters = caller('gitlab:user:ada', ['system:masters'])
  for (const one of [caller('ann'), caller('system:admin'), masters, caller('system:serviceaccount:shop:deployer')])
    t.throws(() => open(one), { code: 'IDENTITY_REFUSED', message: /--may-impersonate/ })
  await pass()
  t.strictSame(api.asked, [])
  open(caller('bob'))
  open(caller('gitlab:user:ada', ['gitlab:user']))
  await pass()
  t.strictSame(new Set(api.asked.map(({ headers }) => headers[1])), new Set(['bob', 'gitlab:user:ada']))
})

t.test('callers that differ in anything are asked for apart; views of one share', async (t) => {
  const { present, open, pass, asked } = start(t)
  present.add(kinds.pod, 'shop')
  const ann = { username: 'ann', groups: ['dev'], uid: '', extra: [] }
  for (const parts of [{}, {}, { groups: ['ops'] }, { uid: '7' }, { extra: [{ key: 'a', val: ['b'] }] }]) {
    open({ as: 'user', user: { ...ann, ...parts } })
  }
  await pass()
  t.equal(asked().filter((one) => one === '*/*').length, 4)
})

t.test('what is taken is noticed after 45 s, what is given, too', async (t) => {
  const { api, present, open, pass, clock } = start(t)
  present.add(kinds.pod, 'shop')
  present.add(kinds.service, 'shop')
  api.rights.set('ann', [['/pods', 'shop']])
  const { latest, seen } = open()
  await pass()
  t.ok(latest().mayList(kinds.pod, 'shop'))
  const from = clock.now()
  api.rights.set('ann', [['/services', 'shop']])
  while (latest().mayList(kinds.pod, 'shop') || !latest().mayList(kinds.service, 'shop')) await pass(100)
  const tookMs = clock.now() - from
  t.ok(tookMs >= 44_000 && tookMs < 60_000, `${tookMs} ms`)
  t.ok(seen.length <= 4)
})

t.test('a failure is a denial, and so is silence', async (t) => {
  const { api, present, open, pass, clock, lines } = start(t)
  present.add(kinds.pod, 'shop')
  api.rights.set('ann', [['/pods', '*']])
  const { latest, access } = open()
  await pass()
  t.ok(latest().mayList(kinds.pod, 'shop'))
  api.answer = async () => ({ status: 500, body: { message: 'no etcd' } })
  for (let i = 0; i < 10; i++) await pass(5000)
  t.notOk(latest().mayList(kinds.pod, 'shop'))
  t.match(access.problem, /could not be reviewed/)
  t.match(lines[0], { reason: 'HTTP status 500: no etcd' })
  api.answer = undefined
  for (let i = 0; i < 3; i++) await pass(5000)
  t.ok(latest().mayList(kinds.pod, 'shop'))
  t.equal(access.problem, '')
  const from = clock.now()
  api.answer = () => new Promise(() => undefined)
  while (latest().mayList(kinds.pod, 'shop')) await pass(100)
  t.ok(clock.now() - from <= 60_500, `${clock.now() - from} ms`)
})

t.test('answers that cannot be read are failures', async (t) => {
  for (const body of [undefined, {}, { status: { allowed: 'true' } }, []]) {
    const { api, open, pass } = start(t)
    api.answer = async () => ({ status: 201, body })
    const { latest, access } = open()
    await pass()
    await pass(1000)
    t.notOk(latest().mayList(kinds.pod, 'shop'))
    t.match(access.problem, /could not be reviewed/)
  }
})

t.test('8 in flight, 300 at once, then 100 a second, callers in turn', async (t) => {
  const { api, present, open, pass, clock } = start(t)
  let inFlight = 0
  let most = 0
  let answered = 0
  const users: string[] = []
  api.answer = async () => {
    most = Math.max(most, ++inFlight)
    users.push(api.asked.at(-1)?.user ?? '')
    await new Promise((resolve) => setImmediate(resolve))
    inFlight--
    answered++
    return { status: 201, body: { status: { allowed: false } } }
  }
  for (let i = 0; i < 1000; i++) present.add(kinds.pod, `n${i}`)
  open(user('ann'))
  while (answered < 20) await pass()
  open(user('bob'))
  while (answered < 300) await pass()
  for (let i = 0; i < 5; i++) await pass()
  t.equal(answered, 300)
  t.equal(most, 8)
  const ofBob = users.flatMap((one, i) => (one === 'bob' ? [i] : []))
  const [some = 0, later = 0] = [ofBob[4], ofBob[24]] // the first few requests wait for one another
  t.ok(later > 0 && later - some <= 45, `${later - some} for 20 of his: he does not wait for all of the first`)
  const from = clock.now()
  while (answered < 400) await pass(10)
  t.equal(Math.round((clock.now() - from) / 100) / 10, 1)
})

t.test('over so many namespaces a scope must name its own', async (t) => {
  const { api, present, open, pass, asked } = start(t)
  api.rights.set('ann', [['/pods', 'n7']])
  for (let i = 0; i <= maxNamespacesAsked; i++) present.add(kinds.pod, `n${i}`)
  const { latest, access } = open()
  await pass()
  t.strictSame(asked(), ['*/*', 'rules default'])
  t.ok(access.hasTooManyNamespaces)
  t.notOk(latest().mayList(kinds.pod, 'n7'))
  const named = open(user('bob'), ['n7'])
  api.rights.set('bob', [['/pods', 'n7']])
  await pass()
  t.notOk(named.access.hasTooManyNamespaces)
  t.ok(named.latest().mayList(kinds.pod, 'n7'))
})

t.test('so many callers; the idle ones make room', async (t) => {
  const { open, pass } = start(t)
  const first = open(user('u0'))
  for (let i = 1; i < maxCallers; i++) open(user(`u${i}`))
  t.throws(() => open(user('one more')), { code: 'TOO_MANY_STREAMS' })
  open(user('u5'))
  first.access.close()
  open(user('one more'))
  await pass()
})

t.test('without a view nothing is asked, and answers count for a minute', async (t) => {
  const { api, present, open, pass, asked, clock } = start(t)
  present.add(kinds.pod, 'shop')
  api.rights.set('ann', [['*/*', '*']])
  const { access } = open()
  await pass()
  access.close()
  asked()
  t.equal(clock.pending, 0)
  await pass(50_000)
  const again = open()
  await pass()
  t.ok(again.latest().mayList(kinds.pod, 'shop'))
  t.strictSame(asked(), ['*/*'])
  again.access.close()
  api.rights.set('ann', [])
  await pass(100_000)
  const late = open()
  await pass()
  t.notOk(late.latest().mayList(kinds.pod, 'shop'))
})

t.test('an answer counts for a minute, though there is nothing of it meanwhile; not longer', async (t) => {
  const { api, present, open, pass, asked } = start(t)
  api.rights.set('ann', [
    ['/pods', 'shop'],
    ['/services', 'bank'],
  ])
  present.add(kinds.pod, 'shop')
  present.add(kinds.service, 'bank')
  const { latest } = open()
  await pass()
  present.delete(kinds.pod, 'shop')
  for (let i = 0; i < 50; i++) await pass(1000)
  t.ok(latest().mayList(kinds.pod, 'shop'), 'what comes again is seen at once')
  for (let i = 0; i < 12; i++) await pass(1000)
  t.notOk(latest().mayList(kinds.pod, 'shop'))
  t.ok(latest().mayList(kinds.service, 'bank'))
  asked()
  present.add(kinds.pod, 'shop')
  await pass(100)
  await pass(100)
  t.strictSame(asked(), ['/pods shop'])
  t.ok(latest().mayList(kinds.pod, 'shop'))
})
