import { create, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import { FollowedCommits } from '../../../../../src/kas/modules/gitops/followed-commits.ts'
import { FollowedCommitSchema } from '../../../../../src/proto/gen/replica_gitops_pb.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const agentId = 42n as AgentId
const day = 24 * 3600_000

t.test('peers get an age, however long nothing was pushed, and though the clock was set back', async (t) => {
  const clock = new ManualClock()
  const commits = new FollowedCommits(clock)
  commits.follow(agentId, { project: 'platform/shop', ref: 'refs/heads/main', commit: 'a'.repeat(40) })
  const age = () => {
    const [followed] = commits.of(agentId)
    if (!followed) throw new Error('the stream is not known')
    toBinary(FollowedCommitSchema, create(FollowedCommitSchema, followed)) // as the answer to a peer
    return followed.ageMs
  }
  clock.advance(day)
  t.equal(age(), day)
  clock.advance(60 * day)
  t.equal(age(), 2 ** 32 - 1, 'the largest one')
  clock.putBack(100 * day)
  t.equal(age(), 0)
})
