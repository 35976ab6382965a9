import t from 'tap'
import { entriesNeeded, isKasExtraKey, isKasName } from '../../../src/lib/impersonated-names.ts'

const nobody = { username: '', groups: [], uid: '', extra: [] }

t.test('names that kas alone may say', async (t) => {
  for (const name of ['gitlab:user:root', 'gitlab:', ' gitlab:user:root', '\tgitlab:ci_job'])
    t.ok(isKasName(name), JSON.stringify(name))
  for (const name of ['', 'gitlab', 'Gitlab:user:root', 'xgitlab:user', 'ɡitlab:user:root', 'system:masters'])
    t.notOk(isKasName(name), JSON.stringify(name))
  for (const key of ['agent.gitlab.com/id', 'Agent.GitLab.COM/username']) t.ok(isKasExtraKey(key), key)
  for (const key of ['agent.gitlab.com', 'x.agent.gitlab.com/id', 'agent.gitlab.com%2Fid', ''])
    t.notOk(isKasExtraKey(key), key)
})

t.test('identities of GitLab need no entry', async (t) => {
  const extra = [{ key: 'agent.gitlab.com/id' }, { key: 'agent.gitlab.com/username' }]
  const groups = ['gitlab:user', 'gitlab:project_role:7:developer']
  t.strictSame(entriesNeeded({ ...nobody, username: 'gitlab:user:ada', groups, extra }), [])
  t.strictSame(entriesNeeded(nobody), [])
})

t.test('each other name needs one', async (t) => {
  const needed = entriesNeeded({
    username: 'system:serviceaccount:shop:deployer',
    groups: ['system:masters', 'kubeadm:cluster-admins', 'gitlab:user', '', 'system:masters'],
    uid: '1-2',
    extra: [{ key: 'Scopes' }, { key: 'agent.gitlab.com/id' }],
  })
  const groups = ['group:system:masters', 'group:kubeadm:cluster-admins', 'group:']
  t.strictSame(needed, ['serviceaccount:shop:deployer', ...groups, 'uid:1-2', 'extra:scopes'])
})

t.test('names that look like one of kas need an entry', async (t) => {
  for (const username of [' gitlab:user:root', 'Gitlab:user:root', 'ɡitlab:user:root', 'gitlab', '\u200bgitlab:x'])
    t.strictSame(entriesNeeded({ ...nobody, username }), [`user:${username}`])
  for (const username of ['system:serviceaccount:shop', 'system:serviceaccount:a:b:c', 'system:serviceaccount::b'])
    t.strictSame(entriesNeeded({ ...nobody, username }), [`user:${username}`])
})
