import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import { parseAgentConfiguration } from '../../../../../src/kas/agent-config/agent-config-file.ts'
import type { FollowedConfig } from '../../../../../src/kas/agent-config/agent-configs.ts'
import { unservedKeys } from '../../../../../src/kas/modules/configuration/unserved-keys.ts'
import type { CommitId } from '../../../../../src/kas/repositories/repositories.ts'

const managed = 'ci_access: { projects: [{ id: apps/web, resource_management: { enabled: true } }] }'

function followedFrom(text: string, id = 1n): FollowedConfig {
  const agent = { id: id as AgentId, name: `a${id}`, project: { id: 1n, path: 'platform/clusters' } }
  const configuration = parseAgentConfiguration('c.yaml', Buffer.from(text))
  return { agent, good: { commit: 'c' as CommitId, configuration, seenAt: 0, since: 0 }, error: undefined, readAt: 0 }
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
