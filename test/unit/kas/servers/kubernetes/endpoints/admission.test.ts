import t from 'tap'
import type { AgentId } from '../../../../../../src/call/call.ts'
import type { UserCredential } from '../../../../../../src/kas/directory/directory.ts'
import { ReplicaMemory } from '../../../../../../src/kas/memory/replica-memory.ts'
import { CallerKeys } from '../../../../../../src/kas/servers/kubernetes/authorization/caller-keys.ts'
import type { Sessions } from '../../../../../../src/kas/servers/kubernetes/authorization/sessions.ts'
import { Admission } from '../../../../../../src/kas/servers/kubernetes/endpoints/admission.ts'
import type { AskedRequest, Endpoint } from '../../../../../../src/kas/servers/kubernetes/endpoints/endpoint.ts'
import { readRequestHead } from '../../../../../../src/kas/servers/kubernetes/request/request-head.ts'
import { parseTarget } from '../../../../../../src/kubernetes/request/target.ts'
import { KasError } from '../../../../../../src/lib/errors.ts'

const agentId = 42n as AgentId
const user = { id: 5n, username: 'ada' }
const refused = new KasError({ code: 'USER_UNAUTHORIZED' })
const handedIn = {
  kind: 'user',
  agentId,
  candidates: [{ type: 'personal_access_token', key: 'handed in' }],
} as const

/** Starts an admission with requests. It records everything that happens as an event. */
function start() {
  const events: string[] = []
  const directory = {
    grantJob: async () => {
      throw refused
    },
    grantUser: async (_: AgentId, { key }: UserCredential) => {
      events.push(`directory: ${key}`)
      if (key === 'refused') throw refused
      return { accessAs: { as: 'agent' }, configProjectId: 1n, user } as const
    },
  }
  const sessions = { begin: () => 3 } as Pick<Sessions, 'begin' | 'open'>
  const arrivals = {
    admit: <T>(_: unknown, check: (signal: AbortSignal) => Promise<T>, signal: AbortSignal) => {
      events.push('arrived')
      return check(signal)
    },
  }
  const memory = new ReplicaMemory()
  const admission = new Admission({ directory, arrivals, callerKeys: new CallerKeys(), memory, sessions })
  const request = (headers: Record<string, string> = {}, { upgrades = false } = {}) => {
    const rawHeaders = Object.entries({ Host: 'kas', ...headers }).flat()
    const head = readRequestHead({ rawHeaders, httpVersionMajor: 1, httpVersionMinor: 1 }, upgrades)
    const exchange = {
      request: { rawHeaders, url: '/' },
      arrived: {},
      signal: new AbortController().signal,
      upgrade: upgrades ? { refused: () => void events.push('upgrade refused') } : undefined,
      countBy: () => void events.push('counted'),
    }
    const life = {
      exchange,
      calls: (id: AgentId) => void events.push(`calls ${id}`),
      letIn: ({ agentId: id, access }: { agentId: AgentId; access?: { username: string } }) =>
        void events.push(`let in: ${access?.username}, ${id}`),
      opens: () => void events.push('session'),
      settle: () => void events.push('settled'),
    }
    return { life, head, target: parseTarget('/api/v1/pods', '/') } as unknown as AskedRequest
  }
  const endpoint = (rest: Partial<Endpoint>): Endpoint => ({
    path: '/own/',
    methods: undefined,
    admit: admission.caller as Endpoint['admit'],
    serve: async () => {
      events.push('served')
      return 'endpoint'
    },
    ...rest,
  })
  const run = async (asked: AskedRequest, rest: Partial<Endpoint> = {}) => {
    events.length = 0
    const own = endpoint(rest)
    const outcome = await own.admit(asked, own).catch((error: KasError) => error.code)
    return [...events, outcome]
  }
  return { admission, request, run }
}

const letIn = ['calls 42', 'arrived', 'directory: good', 'let in: ada, 42', 'counted', 'session']
const pat = { Authorization: 'Bearer pat:42:good' }

t.test(
  'a caller of an agent: nothing is served before the directory lets in, and the session ends with it',
  async (t) => {
    const { request, run } = start()
    t.strictSame(await run(request(pat)), [...letIn, 'served', 'settled', 'endpoint'])
    t.strictSame(await run(request({ Authorization: 'Bearer pat:42:refused' })), [
      'calls 42',
      'arrived',
      'directory: refused',
      'USER_UNAUTHORIZED',
    ])
    t.strictSame(await run(request()), ['CREDENTIALS_INVALID'])
    const serve = () => Promise.reject(new KasError({ code: 'CANCELLED' }))
    t.strictSame(await run(request(pat), { serve }), [...letIn, 'settled', 'CANCELLED'])
  },
)

t.test('an endpoint hands in credentials that are not in the head, in place of those that are', async (t) => {
  const { request, run } = start()
  const expected = letIn.map((event) => event.replace('good', 'handed in'))
  const credentials = async () => handedIn
  t.strictSame(await run(request(), { credentials }), [...expected, 'served', 'settled', 'endpoint'])
  t.strictSame(await run(request(pat), { credentials }), [...expected, 'served', 'settled', 'endpoint'])
  t.strictSame(await run(request(pat), { credentials: () => undefined }), [...letIn, 'served', 'settled', 'endpoint'])
  t.strictSame(
    await run(request(pat), {
      credentials: () => Promise.reject(new KasError({ code: 'CREDENTIALS_INVALID', detail: '' })),
    }),
    ['CREDENTIALS_INVALID'],
    'those of the head do not stand in for bad ones',
  )
})

t.test('names of the caller pass where the endpoint passes them on', async (t) => {
  const { request, run } = start()
  const asked = () => request({ ...pat, 'Impersonate-User': 'eve' })
  t.strictSame(await run(asked()), [...letIn.slice(0, -1), 'IDENTITY_REFUSED'])
  t.strictSame(await run(asked(), { passesNames: true }), [...letIn, 'served', 'settled', 'endpoint'])
})

t.test('an upgrade is served as one, or refused once its caller is let in', async (t) => {
  const { request, run } = start()
  const upgrade = async () => 'upgraded' as const
  const asked = () => request({ ...pat, Upgrade: 'websocket', Connection: 'upgrade' }, { upgrades: true })
  t.strictSame(await run(asked(), { upgrade }), [...letIn, 'settled', 'upgraded'])
  t.strictSame(await run(asked()), [...letIn, 'upgrade refused', 'served', 'settled', 'endpoint'])
  t.strictSame(await run(request(pat), { upgrade }), [...letIn, 'served', 'settled', 'endpoint'])
})

t.test('a user by the token alone, whichever agent is named with it', async (t) => {
  const { admission, request, run } = start()
  const tokens: string[] = []
  const admit = admission.user(async (token) => {
    tokens.push(token)
    if (token === 'refused') throw refused
    return { user, answer: () => Promise.reject(refused) }
  }) as Endpoint['admit']
  for (const agent of ['0', '42'])
    t.strictSame(await run(request({ Authorization: `Bearer pat:${agent}:good` }), { admit }), [
      'arrived',
      'let in: ada, 0',
      'served',
      'endpoint',
    ])
  t.strictSame(await run(request({ Authorization: 'Bearer pat:0:refused' }), { admit }), [
    'arrived',
    'USER_UNAUTHORIZED',
  ])
  for (const value of ['Bearer ci:0:good', 'Bearer pat:x:good', 'Bearer pat:0:', 'Basic good'])
    t.strictSame(await run(request({ Authorization: value }), { admit }), ['CREDENTIALS_INVALID'], value)
  t.strictSame(tokens, ['good', 'good', 'refused'])
})

t.test('a sender whom nobody knows is let in by what is sent, and has no name', async (t) => {
  const { admission, request, run } = start()
  const admit = admission.sender(async ({ head }) => {
    if (head.authorization.length > 0) throw refused
    return 'checked'
  }) as Endpoint['admit']
  const serve = async (admitted: unknown) => (admitted === 'checked' ? 'endpoint' : 'failed') as 'endpoint' | 'failed'
  t.strictSame(await run(request(), { admit, serve }), ['arrived', 'let in: undefined, 0', 'endpoint'])
  t.strictSame(await run(request(pat), { admit, serve }), ['arrived', 'USER_UNAUTHORIZED'])
  const events = await run(request({ Upgrade: 'x', Connection: 'upgrade' }, { upgrades: true }), { admit })
  t.strictSame(events.slice(0, 2), ['upgrade refused', 'arrived'], 'who could not upgrade is not waited for')
})
