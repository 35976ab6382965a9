import t from 'tap'
import type { AgentConfiguration } from '../../../../../src/kas/agent-config/agent-config-reader.ts'
import { followedConfiguration } from '../../../../../src/kas/modules/gitops/named-sources.ts'
import type { CommitId } from '../../../../../src/kas/repositories/repositories.ts'
import { sourceDigest } from '../../../../../src/proto/gitops/source-digest.ts'
import { someAgent } from '../../../../support/fake-agent-call.ts'

t.test('the digest of a source is that of what its agent gets, which has no preview', async (t) => {
  const sent = { id: 'platform/shop', name: 'web' }
  const value = { manifest_projects: [{ ...sent, preview: { projects: [7] } }] }
  const good = { commit: 'c1' as CommitId, since: 0, blocks: new Map([['gitops', { json: '', value }]]) }
  const followed = { agent: someAgent, error: undefined, readAt: 0, hasFeature: () => true }
  const { source } = followedConfiguration({ ...followed, good: good as unknown as AgentConfiguration }, 0)
  t.match(source, [{ project: 'platform/shop', name: 'web', digest: sourceDigest(sent) }])
})
