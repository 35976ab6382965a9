import { create, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import { parseAgentConfiguration } from '../../../../../src/kas/agent-config/agent-config-file.ts'
import type { FollowedConfig } from '../../../../../src/kas/agent-config/agent-configs.ts'
import type { Gitlab } from '../../../../../src/kas/directory/gitlab.ts'
import { getConfigurationMethod } from '../../../../../src/kas/modules/configuration/configuration.ts'
import {
  type AgentRegistry,
  createConfiguration,
  unservedKeys,
} from '../../../../../src/kas/modules/configuration/module.ts'
import type { CommitId } from '../../../../../src/kas/repositories/repositories.ts'
import { ConfigurationRequestSchema } from '../../../../../src/proto/gen/agent_configuration_pb.ts'
import { FakeAgentCall } from '../../../../support/fake-agent-call.ts'
import { bareGitlab, fakeHost } from '../../../../support/fake-host.ts'
import { ManualClock, settle } from '../../../../support/manual-clock.ts'

const options = { gitlabExternalUrl: '', pollMs: 300_000 }
const settled = () => settle(10)
const request = toBinary(
  ConfigurationRequestSchema,
  create(ConfigurationRequestSchema, { agentMeta: { version: 'v15' } }),
)

/** Starts with a branch that the test moves, and optionally a GitLab that takes configurations. */
function start(gitlab?: Gitlab) {
  const clock = new ManualClock()
  const listeners = new Set<() => void>()
  const pods: string[] = []
  let commit = 'one'
  const read = async () => ({
    commit: commit as CommitId,
    configuration: parseAgentConfiguration('c.yaml', Buffer.from(`commit: ${commit}`)),
    seenAt: clock.now(),
    since: 0,
  })
  const host = fakeHost({
    gitlab,
    clock,
    agentConfig: {
      newest: read,
      followed: () => undefined,
      allFollowed: () => [],
      refreshed: read,
      onChange: (_, listener) => {
        const own = () => listener()
        listeners.add(own)
        return () => listeners.delete(own)
      },
      file: async () => undefined,
    },
  })
  const tracker: AgentRegistry = {
    keepRegistered(agent, meta) {
      pods.push(`${agent.id} ${Buffer.from(meta).toString('hex')}`)
      return () => pods.push('gone')
    },
  }
  const module = createConfiguration(host, tracker, options)
  const method = module.agentMethods?.[getConfigurationMethod]
  if (!method) throw new Error('the method is not served')
  const push = async (next: string) => {
    commit = next
    for (const listener of listeners) listener()
    await settled()
  }
  return { module, method, push, listeners, pods }
}

t.test('the configuration of an agent is posted to GitLab while its stream runs', async (t) => {
  const posted: string[] = []
  const { module, method, push, listeners } = start({
    ...bareGitlab,
    takeConfiguration: async (id, { commit }) => {
      posted.push(`${id} ${commit}`)
      return 'taken'
    },
  })
  t.teardown(() => Promise.all((module.services ?? []).map((service) => service.stop())))
  t.equal(module.services?.length, 1)
  t.match(method, { type: 'server_stream', patient: true })
  const [one, two] = [new FakeAgentCall({ messages: [request] }), new FakeAgentCall({ messages: [request] })]
  const first = one.servedBy(method.serve)
  const second = two.servedBy(method.serve)
  await settled()
  t.strictSame(posted, ['42 one'], 'once, however many streams there are')
  one.retire()
  t.equal(await first, 'OK')
  await push('two')
  t.strictSame(posted, ['42 one', '42 two'])
  t.strictSame([one.sent.length, two.sent.length], [1, 2])
  two.cut()
  t.match(await second, { code: 'CANCELLED' })
  await push('three')
  t.strictSame(posted, ['42 one', '42 two'])
  t.equal(listeners.size, 0)
})

t.test('without a GitLab that takes it nothing is posted', async (t) => {
  const { module, method, listeners } = start()
  t.strictSame(module.services ?? [], [])
  const call = new FakeAgentCall({ messages: [request] })
  const done = call.servedBy(method.serve)
  await settled()
  t.equal(call.sent.length, 1)
  call.retire()
  t.equal(await done, 'OK')
  t.equal(listeners.size, 0)
})

t.test('an old agent is registered while its stream runs', async (t) => {
  const { method, pods } = start()
  const call = new FakeAgentCall({ messages: [request] })
  const done = call.servedBy(method.serve)
  await settled()
  t.strictSame(pods, ['42 0a03763135'])
  call.retire()
  await done
  t.equal(pods.at(-1), 'gone')
})

const managed = 'ci_access: { projects: [{ id: apps/web, resource_management: { enabled: true } }] }'

function followedFrom(text: string, id = 1n): FollowedConfig {
  const agent = { id: id as AgentId, name: `a${id}`, project: { id: 1n, path: 'platform/clusters' } }
  const configuration = parseAgentConfiguration('c.yaml', Buffer.from(text))
  const good = { commit: 'c' as CommitId, configuration, seenAt: 0, since: 0 }
  return { agent, good, error: undefined, readAt: 0, hasFeature: () => true }
}

t.test('kas status names the agents whose file has GitLab ask in vain', async (t) => {
  const unread: FollowedConfig = { ...followedFrom(managed, 3n), good: undefined }
  t.match(unservedKeys([followedFrom('{}', 2n), followedFrom(managed), unread]), [
    [
      'agent 1, a1 of platform/clusters',
      /^ci_access\.projects\[0\]\.resource_management\.enabled has no effect: .*of project apps\/web\. Write/,
    ],
  ])
  t.equal(unservedKeys([followedFrom('{}', 2n), followedFrom(managed), unread]).length, 1)
  t.same(unservedKeys([]), [])
})

t.test('of many, some are named and the others counted', async (t) => {
  const lines = unservedKeys(Array.from({ length: 25 }, (_, i) => followedFrom(managed, BigInt(i + 1))))
  t.equal(lines.length, 21)
  t.same(lines.at(-1), ['and more such agents', 5])
})
