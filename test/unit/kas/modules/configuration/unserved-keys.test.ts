import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import { parseAgentConfiguration } from '../../../../../src/kas/agent-config/agent-config-file.ts'
import type { FollowedConfig } from '../../../../../src/kas/agent-config/agent-configs.ts'
import { UnservedKeys } from '../../../../../src/kas/modules/configuration/unserved-keys.ts'
import type { CommitId } from '../../../../../src/kas/repositories/repositories.ts'

const managed = 'ci_access: { projects: [{ id: apps/web, resource_management: { enabled: true } }] }'

function followedFrom(texts: ReadonlyMap<AgentId, string>) {
  return (id: AgentId): FollowedConfig | undefined => {
    const text = texts.get(id)
    if (text === undefined) return undefined
    const agent = { id, name: `a${id}`, project: { id: 1n, path: 'platform/clusters' } }
    const configuration = parseAgentConfiguration('c.yaml', Buffer.from(text))
    return { agent, good: { commit: 'c' as CommitId, configuration, seenAt: 0, since: 0 }, error: undefined, readAt: 0 }
  }
}

t.test('kas status names the agents whose file has GitLab ask in vain, while they are connected', async (t) => {
  const texts = new Map([
    [1n as AgentId, managed],
    [2n as AgentId, '{}'],
  ])
  const unserved = new UnservedKeys({ agentConfig: { followed: followedFrom(texts) } })
  const ends = [1n, 1n, 2n, 3n].map((id) => unserved.follow(id as AgentId))
  t.match(unserved.status(), [
    [
      'agent 1, a1 of platform/clusters',
      /^ci_access\.projects\[0\]\.resource_management\.enabled has no effect: .*of project apps\/web\. Write/,
    ],
  ])
  t.equal(unserved.status().length, 1)
  ends[0]?.()
  t.equal(unserved.status().length, 1, 'its other pod')
  ends[1]?.()
  t.same(unserved.status(), [])
})

t.test('of many, some are named and the others counted', async (t) => {
  const texts = new Map(Array.from({ length: 25 }, (_, i) => [BigInt(i + 1) as AgentId, managed]))
  const unserved = new UnservedKeys({ agentConfig: { followed: followedFrom(texts) } })
  for (const id of texts.keys()) unserved.follow(id)
  t.equal(unserved.status().length, 21)
  t.same(unserved.status().at(-1), ['and more such agents', 5])
})
