import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { AgentId } from '../../../../../../src/call/call.ts'
import type { DirectoryListener, JobGrant, UserGrant } from '../../../../../../src/kas/directory/directory.ts'
import {
  AuthorizationRechecks,
  type AuthorizationRechecksOptions,
  type CheckedCaller,
} from '../../../../../../src/kas/servers/kubernetes/authorization/authorization-rechecks.ts'
import { authorize } from '../../../../../../src/kas/servers/kubernetes/authorization/authorize.ts'
import type { Credentials } from '../../../../../../src/kas/servers/kubernetes/authorization/credentials.ts'
import { type ErrorCode, KasError } from '../../../../../../src/lib/errors.ts'
import { capturedLog } from '../../../../../support/captured-log.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

const ada: UserGrant = { accessAs: { as: 'agent' }, configProjectId: 1n, user: { id: 5n, username: 'ada' } }
const asUser = (grant: UserGrant): UserGrant => ({ ...grant, accessAs: { as: 'user', projects: [], groups: [] } })
const prod = 42n as AgentId

function user(key = 'ada', agentId = prod): Credentials {
  return { kind: 'user', agentId, candidates: [{ type: 'personal_access_token', key }] }
}

function start(t: Test, options: AuthorizationRechecksOptions = {}) {
  const clock = new ManualClock()
  const asked: string[] = []
  const world = {
    grant: async (_key: string): Promise<UserGrant> => ada,
    listener: undefined as DirectoryListener | undefined,
  }
  const directory = {
    grantJob: async (): Promise<JobGrant> => Promise.reject(new Error('not asked here')),
    grantUser: async (agentId: AgentId, { key }: { key: string }) => {
      asked.push(`${key} ${agentId}`)
      return await world.grant(key)
    },
  }
  const localDirectory = {
    onGrantsChange: (listener: DirectoryListener) => {
      world.listener = listener
      return () => {
        world.listener = undefined
      }
    },
  }
  const { log, lines } = capturedLog()
  const checks = new AuthorizationRechecks({ directory, localDirectory, clock, log }, options)
  checks.start()
  t.teardown(() => checks.stop())
  /** @returns events of the caller: the reason of a withdrawal, or the user as which the caller continues */
  const letIn = async (credentials: Credentials, how: { since?: number; goesOn?: boolean; grant?: UserGrant } = {}) => {
    const { since = checks.changes, goesOn = false, grant = ada } = how
    const letInAs = await authorize(
      { ...directory, grantUser: async () => grant },
      credentials,
      new AbortController().signal,
    )
    const became: string[] = []
    const caller: CheckedCaller = {
      credentials,
      letInAs,
      withdraw: (reason) => became.push(`${reason.code}: ${reason.message}`),
      changed: goesOn ? (now) => became.push(`as ${now?.username}`) : undefined,
    }
    return { became, leave: checks.add(caller, since) }
  }
  const refuse = (code: ErrorCode & ('USER_UNAUTHORIZED' | 'USER_FAILED')) => {
    world.grant = () => Promise.reject(new KasError({ code }))
  }
  const pass = async (ms: number) => {
    clock.advance(ms)
    for (let i = 0; i < 5; i++) await setImmediate()
  }
  const change = async (...about: Parameters<DirectoryListener>) => {
    world.listener?.(...about)
    await pass(0)
  }
  return { clock, checks, asked, world, letIn, refuse, pass, change, lines }
}

t.test('one question is about all that runs with one credential at one agent', async (t) => {
  const { letIn, asked, pass, refuse } = start(t)
  const all = [
    await letIn(user()),
    await letIn(user()),
    await letIn(user('bob')),
    await letIn(user('ada', 43n as AgentId)),
  ]
  await pass(3999)
  t.same(asked, [])
  await pass(1)
  t.same(asked, ['ada 42', 'bob 42', 'ada 43'], 'of each soon: he may have been let in by an answer that was kept')
  await pass(49_999)
  t.equal(asked.length, 3)
  refuse('USER_UNAUTHORIZED')
  await pass(1)
  t.equal(asked.length, 6)
  for (const { became } of all) t.same(became, ['USER_UNAUTHORIZED: Unauthorized'])
})

t.test('what fails inside withdraws nobody, and the operator hears of it', async (t) => {
  const { letIn, world, pass, lines } = start(t)
  const { became } = await letIn(user())
  world.grant = () => Promise.reject(new TypeError('a fault'))
  await pass(4000)
  t.same(became, [])
  t.match(lines, [{ level: 'error', agent_id: '42', error: { code: 'INTERNAL' } }])
})

t.test('of one who is refused nobody else loses anything; a directory that is away withdraws nobody', async (t) => {
  const { letIn, world, asked, pass, refuse } = start(t)
  const [one, other] = [await letIn(user()), await letIn(user('bob'))]
  refuse('USER_FAILED')
  await pass(50_000)
  t.same([one.became, other.became], [[], []])
  world.grant = async (key) => {
    if (key === 'ada') throw new KasError({ code: 'USER_UNAUTHORIZED' })
    return ada
  }
  await pass(50_000)
  t.match(one.became, [/^USER_UNAUTHORIZED/])
  t.same(other.became, [])
  t.equal(asked.length, 4)
})

t.test('what has ended is not asked about, and leaves no timer', async (t) => {
  const { letIn, asked, pass, clock } = start(t)
  const [one, other] = [await letIn(user()), await letIn(user('bob'))]
  t.equal(clock.pending, 1, 'one timer for all')
  one.leave()
  await pass(50_000)
  t.same(asked, ['bob 42'])
  other.leave()
  t.equal(clock.pending, 0)
})

t.test(
  'where the directory says that it may have changed those whom it concerns are asked about at once',
  async (t) => {
    const { letIn, asked, change, refuse } = start(t)
    const [one, other] = [await letIn(user()), await letIn(user('ada', 43n as AgentId))]
    await change(new Set([43n as AgentId]))
    t.same(asked.splice(0), ['ada 43'])
    refuse('USER_UNAUTHORIZED')
    await change()
    t.same(asked, ['ada 42', 'ada 43'])
    for (const { became } of [one, other]) t.equal(became.length, 1)
  },
)

t.test('who was being let in when it changed, or being asked about, is asked about again', async (t) => {
  const { letIn, asked, change, checks, world, pass } = start(t)
  const since = checks.changes
  await change()
  await letIn(user(), { since })
  await pass(0)
  t.same(asked.splice(0), ['ada 42'])
  const { promise, resolve } = Promise.withResolvers<UserGrant>()
  world.grant = () => promise
  await pass(50_000)
  await change()
  t.same(asked, ['ada 42'], 'one question at a time')
  resolve(ada)
  await pass(0)
  t.same(asked, ['ada 42', 'ada 42'])
})

t.test('a user who is renamed, deleted and made again', async (t) => {
  const { letIn, change, world } = start(t)
  const asAgent = await letIn(user())
  const eve = { id: 5n, username: 'eve' }
  world.grant = async () => ({ ...ada, user: eve })
  await change()
  t.same(asAgent.became, [], 'renamed: he is the same, and so is what he does in the cluster')

  const [asHimself, inViews] = [
    await letIn(user('a'), { grant: asUser(ada) }),
    await letIn(user('a'), { grant: asUser(ada), goesOn: true }),
  ]
  world.grant = async () => asUser({ ...ada, user: eve })
  await change()
  t.same(asHimself.became, ['FORBIDDEN: forbidden: the roles of the caller have changed'], 'there he has another name')
  t.same(inViews.became, ['as gitlab:user:eve'], 'what can goes on under it')
  await change()
  t.equal(inViews.became.length, 1, 'once')

  world.grant = async () => ({ ...ada, user: { id: 6n, username: 'ada' } })
  const again = await letIn(user('b'), { goesOn: true })
  await change()
  t.same(again.became, ['FORBIDDEN: forbidden: the credential is now of another user'], 'the same name, another one')
})

t.test('with more to ask about than the directory may be asked the period grows', async (t) => {
  const { letIn, asked, pass, checks } = start(t, { perSecond: 10 })
  t.equal(checks.periodMs, 50_000)
  for (let i = 0; i < 1000; i++) await letIn(user(`user-${i}`))
  t.equal(checks.periodMs, 100_000)
  const perSecond: number[] = []
  for (let i = 0; i < 200; i++) {
    const before = asked.length
    await pass(1000)
    perSecond.push(asked.length - before)
  }
  t.ok(Math.max(...perSecond) <= 20, `${Math.max(...perSecond)} in a second, with the burst`)
  t.ok(asked.length >= 1900 && asked.length <= 1980, `${asked.length} in the 196 s that anybody was due`)
  t.equal(new Set(asked).size, 1000, 'each has his turn')
})

t.test('ten thousand are asked about in turns, and what else there is runs in between', async (t) => {
  const { letIn, asked, world } = start(t)
  for (let i = 0; i < 10_000; i++) await letIn(user(`user-${i}`))
  world.listener?.()
  let turns = 0
  while (asked.length < 10_000) {
    await setImmediate()
    turns++
  }
  t.ok(turns >= 10_000 / 32, `${turns} turns of the event loop`)
})
