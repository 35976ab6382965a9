import t, { type Test } from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import type { Agent } from '../../../../../src/kas/agent.ts'
import { parseAgentConfiguration } from '../../../../../src/kas/agent-config/agent-config-file.ts'
import { ConfigurationPosts } from '../../../../../src/kas/modules/configuration/configuration-posts.ts'
import type { CommitId } from '../../../../../src/kas/repositories/repositories.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { ManualClock, settle } from '../../../../support/manual-clock.ts'

const agent: Agent = { id: 42n as AgentId, name: 'prod', project: { id: 7n, path: 'platform/clusters' } }
const unreadable = new KasError({ code: 'REPOSITORY_FAILED', detail: 'Gitaly is away' })
const settled = () => settle(10)

/** Starts with a branch, its readers and a GitLab that the test controls. */
function start(t: Test, { leads = true } = {}) {
  const clock = new ManualClock()
  const configurationListeners = new Set<() => void>()
  const leadListeners = new Set<() => void>()
  const subscribe = (to: Set<() => void>, listener: () => void) => {
    to.add(listener)
    return () => to.delete(listener)
  }
  const world = {
    leads,
    /** commit of the branch; undefined: the repository is empty */
    head: 'one' as string | undefined,
    isReadable: true,
    /** GitLab's answer to the next configurations */
    taking: async (): Promise<'taken' | 'agent_removed'> => 'taken',
  }
  const posted: string[] = []
  let refreshed = 0
  let passedOn = 0
  let seen = { commit: world.head, seenAt: clock.now() }
  const see = () => {
    seen = { commit: world.head, seenAt: clock.now() }
  }
  const read = () => {
    if (!world.isReadable) throw unreadable
    if (!seen.commit) return undefined
    const configuration = parseAgentConfiguration('c.yaml', Buffer.from(`observability: {}\ncommit: ${seen.commit}\n`))
    return { commit: seen.commit as CommitId, configuration, seenAt: seen.seenAt, since: 0 }
  }
  const posts = new ConfigurationPosts({
    agentConfig: {
      newest: async () => read(),
      refreshed: async () => {
        refreshed++
        if (seen.commit !== world.head) see()
        return read()
      },
      onChange: (_, listener) => subscribe(configurationListeners, listener),
    },
    gitlab: {
      takeConfiguration: async (_, configuration) => {
        posted.push(String(configuration.commit))
        return await world.taking()
      },
    },
    leads: {
      leads: () => world.leads,
      onChange: (_, listener) => subscribe(leadListeners, listener),
      passOn: () => {
        passedOn++
        world.leads = false
      },
    },
    clock,
    log: capturedLog().log,
  })
  t.teardown(() => posts.stop())
  const notify = async (listeners: Set<() => void>) => {
    for (const listener of listeners) listener()
    await settled()
  }
  return {
    clock,
    world,
    posts,
    posted,
    refreshed: () => refreshed,
    passedOn: () => passedOn,
    push: (commit: string | undefined) => {
      world.head = commit
      see()
      return notify(configurationListeners)
    },
    readable: (is: boolean) => {
      world.isReadable = is
      see()
      return notify(configurationListeners)
    },
    lead: (is: boolean) => {
      world.leads = is
      return notify(leadListeners)
    },
    listeners: () => configurationListeners.size + leadListeners.size,
  }
}

// wire: rest.agent_configuration.when
t.test('each commit is posted once, while an agent is connected', async (t) => {
  const { posts, posted, push, listeners, refreshed } = start(t)
  const [first, second] = [posts.follow(agent), posts.follow(agent)]
  await settled()
  t.same(posted, ['one'])
  await push('two')
  await push('two')
  t.same(posted, ['one', 'two'])
  t.equal(refreshed(), 0, 'what was read just now is not read again')
  first()
  first()
  await push('three')
  second()
  await push('four')
  t.same(posted, ['one', 'two', 'three'])
  t.equal(listeners(), 0)
})

// wire: rest.agent_configuration.when
t.test('nothing is posted of what cannot be read, or is not there', async (t) => {
  const { posts, posted, push, readable, world } = start(t)
  world.isReadable = false
  posts.follow(agent)
  await settled()
  t.same(posted, [])
  await readable(true)
  await readable(false)
  await readable(true)
  t.same(posted, ['one'], 'that it could not be read for a while is no change')
  await push(undefined)
  t.same(posted, ['one'])
})

t.test('the replica that leads posts, and once again when it leads anew', async (t) => {
  const { posts, posted, lead, push } = start(t, { leads: false })
  posts.follow(agent)
  await push('two')
  t.same(posted, [])
  await lead(true)
  await lead(true)
  t.same(posted, ['two'])
  await lead(false)
  await push('three')
  await lead(true)
  t.same(posted, ['two', 'three'])
})

t.test('after a freeze the branch is read before and after the post', async (t) => {
  const { posts, posted, world, clock, refreshed } = start(t)
  clock.advance(60_000)
  world.head = 'two'
  posts.follow(agent)
  await settled()
  t.same(posted, ['two'], 'not what was read before the freeze')

  const { promise, resolve } = Promise.withResolvers<'taken'>()
  const frozen = start(t)
  frozen.world.taking = () => promise
  frozen.posts.follow(agent)
  await settled()
  frozen.clock.advance(60_000)
  frozen.world.head = 'two' // another replica has posted this commit meanwhile, and leads
  frozen.world.leads = false
  resolve('taken')
  await settled()
  t.same(frozen.posted, ['one', 'two'], 'the newest is the last that GitLab gets')
  t.equal(refreshed(), 1)
})

t.test('a post that fails is tried again, later each time, with what is newest then', async (t) => {
  const { posts, posted, world, clock, lead, push } = start(t)
  world.taking = () => Promise.reject(new KasError({ code: 'DIRECTORY_UNAVAILABLE' }))
  posts.follow(agent)
  await settled()
  await lead(true)
  t.same(posted, ['one'], 'a change of the table does not hurry it')
  clock.advance(10_000)
  await settled()
  t.equal(posted.length, 2)
  clock.advance(10_000)
  await settled()
  t.equal(posted.length, 2)
  world.taking = async () => 'agent_removed'
  await push('two')
  t.same(posted, ['one', 'one', 'two'])
  clock.advance(600_000)
  await settled()
  t.equal(posted.length, 3, 'an agent that GitLab does not know is not asked about again')
  t.equal(clock.pending, 0)
})

t.test('after three failures in a row the next replica posts', async (t) => {
  const { posts, posted, passedOn, lead, world, clock } = start(t)
  world.taking = () => Promise.reject(new KasError({ code: 'DIRECTORY_UNAVAILABLE', reason: 'GitLab is away' }))
  posts.follow(agent)
  await settled()
  for (const ms of [10_000, 20_000]) {
    t.equal(passedOn(), 0)
    clock.advance(ms)
    await settled()
  }
  t.equal(passedOn(), 1)
  clock.advance(3_600_000)
  await settled()
  t.equal(posted.length, 3, 'it does not try any more')
  world.taking = async () => 'taken'
  await lead(true)
  t.equal(posted.length, 4)
})
