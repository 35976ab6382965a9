import t from 'tap'
import { GitlabDouble } from '../../support/gitlab/gitlab-double.ts'
import { startGitlabSide } from '../../support/gitlab/gitlab-side.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const never = new AbortController().signal

t.test('GitLab before 17.2 finds the token also while it is tried out what it reads', async (t) => {
  const gitlab = await GitlabDouble.start(t, { version: '16.5' })
  const clock = new ManualClock()
  gitlab.now = () => clock.now()
  const { directory } = await startGitlabSide(t, gitlab, { clock })
  t.match(await directory.agentByToken('glagent-prod', never), { id: 42n })
  clock.advance(3_600_001)
  t.equal(await directory.readsProject('glagent-prod', 'other/thing', never), true)
  const asked = gitlab.calls.length
  t.match(await directory.agentByToken('glagent-prod', never), { id: 42n })
  const shown = gitlab.calls.slice(asked).map(({ headers }) => 'authorization' in headers)
  t.strictSame(shown, [false, true], 'once without')
  gitlab.version = '17.9'
  clock.advance(3_600_001)
  t.match(await directory.agentByToken('glagent-prod', never), { id: 42n })
  t.equal(await directory.readsProject('glagent-prod', 'platform/clusters', never), true)
  t.notOk('authorization' in (gitlab.calls.at(-1)?.headers ?? {}), 'and no more once GitLab was updated')
  gitlab.version = '18.9'
  clock.advance(300_001)
  const before = gitlab.calls.length
  t.match(await directory.agentByToken('glagent-prod', never), { id: 42n })
  t.notOk(gitlab.calls.slice(before).some(({ headers }) => 'authorization' in headers))
})
