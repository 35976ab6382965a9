import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import { FollowedRefs } from '../../../../../src/kas/modules/gitops/followed-refs.ts'

const reading = (ref: string | undefined, id = 1n, projectId = 9n) => ({
  id: id as AgentId,
  project: { id: projectId, path: 'apps/web' },
  ref,
})

t.test('an agent follows a few refs of a project, each as often as it likes', async (t) => {
  const followed = new FollowedRefs()
  const leaves = Array.from({ length: 20 }, (_, i) => followed.follow(reading(`refs/heads/${i}`)))
  const again = followed.follow(reading('refs/heads/0'))
  const refused = { code: 'TOO_MANY_STREAMS', message: /refs of one project that an agent follows/ }
  t.throws(() => followed.follow(reading('refs/heads/x')), refused)
  for (const other of [reading(undefined), reading('refs/heads/x', 2n), reading('refs/heads/x', 1n, 10n)]) {
    followed.follow(other)()
  }
  leaves[0]?.()
  t.throws(() => followed.follow(reading('refs/heads/x')), refused, 'it is followed once more')
  again()
  followed.follow(reading('refs/heads/x'))
  t.throws(() => followed.follow(reading('refs/heads/0')), refused)
})
