import t from 'tap'
import type { ApiLane } from '../../../../../../src/agentk/cluster/background-requests.ts'
import { ClusterKinds } from '../../../../../../src/agentk/modules/gitops/live/cluster-kinds.ts'
import { ObjectRights } from '../../../../../../src/agentk/modules/gitops/state/object-rights.ts'
import { identities } from '../../../../../support/identities.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

const resource = (kind: string, plural: string, isNamespaced = true) => ({
  kind,
  plural,
  isNamespaced,
  verbs: ['get', 'patch', 'delete'],
  hasStatus: false,
  names: { singular: '', short: [], categories: [] },
})
const kinds = new ClusterKinds([
  { group: '', version: 'v1', isStale: false, resources: [resource('Secret', 'secrets')] },
  { group: 'apps', version: 'v1', isStale: false, resources: [resource('Deployment', 'deployments')] },
])
const user = (username: string) => ({ as: 'user', user: { username, groups: [], uid: '', extra: [] } }) as const
const secrets = { group: '', kind: 'Secret', namespace: 'shop' }
const deployments = { group: 'apps', kind: 'Deployment', namespace: 'shop' }
const { signal } = new AbortController()

/** Starts rights at an API server that answers as the test says. */
function start(
  answer: (attributes: Record<string, string>, headers: string) => object | undefined,
  held?: Promise<void>,
) {
  const asked: string[] = []
  const clock = new ManualClock()
  const json: ApiLane['json'] = async (_, path, body, __, options) => {
    const { resourceAttributes: of } = (body as { spec: { resourceAttributes: Record<string, string> } }).spec
    const headers = (options?.headers ?? []).join(' ')
    asked.push(`${path} ${of.verb} ${of.group} ${of.resource} ${of.namespace} ${headers}`.trim())
    await held
    const status = answer(of, headers)
    return { status: status ? 201 : 500, body: status ? { status } : { message: 'away' } } as never
  }
  const parts = { lane: { json }, kinds: { current: async () => kinds }, identities: identities(), clock, signal }
  return { asked, clock, rights: new ObjectRights(parts) }
}

t.test('the API server decides, as the caller, for each kind and namespace', async (t) => {
  const { rights, asked } = start(({ resource }) => ({ allowed: resource !== 'secrets' }))
  t.strictSame(await rights.mayGet(user('gitlab:user:ada'), [secrets, deployments], signal), [false, true])
  t.match(asked[0], /selfsubjectaccessreviews get {2}secrets shop Impersonate-User gitlab:user:ada/)
  t.match(asked[1], /get apps deployments shop Impersonate-User/)
})

t.test('callers that act as the agent are asked for as agentk itself', async (t) => {
  const { rights, asked } = start((_, headers) => ({ allowed: headers === '' }))
  t.strictSame(await rights.mayGet({ as: 'agent' }, [secrets], signal), [true])
  t.notMatch(asked[0], /Impersonate/)
})

t.test('an answer counts for a minute, and for its caller alone', async (t) => {
  const { rights, asked, clock } = start(() => ({ allowed: true }))
  await Promise.all([1, 2].map(() => rights.mayGet(user('gitlab:user:ada'), [secrets], signal)))
  t.equal(asked.length, 1, 'who asks at once shares the question')
  await rights.mayGet(user('gitlab:user:bob'), [secrets], signal)
  t.equal(asked.length, 2)
  clock.advance(59_999)
  await rights.mayGet(user('gitlab:user:ada'), [secrets], signal)
  t.equal(asked.length, 2)
  clock.advance(1)
  await rights.mayGet(user('gitlab:user:ada'), [secrets], signal)
  t.equal(asked.length, 3)
})

t.test('a right that was taken away does not last because the clock was set back', async (t) => {
  let allowed = true
  const { rights, clock } = start(() => ({ allowed }))
  t.strictSame(await rights.mayGet(user('gitlab:user:ada'), [secrets], signal), [true])
  allowed = false
  clock.putBack(3600_000)
  t.strictSame(await rights.mayGet(user('gitlab:user:ada'), [secrets], signal), [false])
})

t.test('whoever leaves does not end the question for others', async (t) => {
  const answered = Promise.withResolvers<void>()
  const { rights, asked } = start(() => ({ allowed: true }), answered.promise)
  const left = new AbortController()
  const first = rights.mayGet(user('gitlab:user:ada'), [secrets], left.signal)
  const second = rights.mayGet(user('gitlab:user:ada'), [secrets], signal)
  left.abort(new Error('left'))
  await t.rejects(first, /left/)
  answered.resolve()
  t.strictSame(await second, [true])
  t.equal(asked.length, 1)
})

t.test('a kind that nobody serves is for who may get all of its group; any kind is asked for as such', async (t) => {
  const { rights, asked } = start(({ group }) => ({ allowed: group === '*' }))
  const unknown = { group: 'example.com', kind: 'Thing', namespace: 'shop' }
  const any = { group: '*', kind: '*', namespace: 'old' }
  t.strictSame(await rights.mayGet(user('gitlab:user:ada'), [unknown, any], signal), [false, true])
  t.match(asked[0], /get example\.com \* shop/)
  t.match(asked[1], /get \* \* old/)
})

t.test('bad input: no name, an API server that fails, an answer that says nothing', async (t) => {
  const failing = start(() => undefined)
  await t.rejects(failing.rights.mayGet(user(''), [secrets], signal), { code: 'FORBIDDEN' })
  t.equal(failing.asked.length, 0)
  await t.rejects(failing.rights.mayGet(user('gitlab:user:ada'), [secrets], signal), /HTTP status 500: away/)
  await t.rejects(failing.rights.mayGet(user('gitlab:user:ada'), [secrets], signal), /HTTP status 500/)
  t.equal(failing.asked.length, 2, 'a failure is not kept')
  const silent = start(() => ({}))
  await t.rejects(silent.rights.mayGet(user('gitlab:user:ada'), [secrets], signal), /neither yes nor no/)
  const refused = start(() => ({ allowed: true }))
  await t.rejects(refused.rights.mayGet(user('system:admin'), [secrets], signal), { code: 'IDENTITY_REFUSED' })
})

t.test('callers without end do not fill the memory', async (t) => {
  const { rights, asked } = start(() => ({ allowed: true }))
  for (let i = 0; i <= 1000; i++) await rights.mayGet(user(`gitlab:user:${i}`), [secrets], signal)
  await rights.mayGet(user('gitlab:user:1000'), [secrets], signal)
  t.equal(asked.length, 1001)
  await rights.mayGet(user('gitlab:user:0'), [secrets], signal)
  t.equal(asked.length, 1002, 'the first one made room')
})
