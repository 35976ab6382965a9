import t from 'tap'
import { attacks as all } from './attacks.ts'
import { SlowGitlab } from './slow-gitlab.ts'
import { playAll, timeoutOf } from './small-size.ts'

/** Each attack on a double of a cluster in a small size, beside good tenants, who must not notice it. */

const plain = all.filter(({ gitlab, cluster, isLong }) => !gitlab && !cluster && !isLong)
t.test('a tenant\u2019s cost is his own', { timeout: timeoutOf(plain) }, (t) =>
  playAll(t, { attacks: plain, execs: 1 }),
)

const strangers = all.filter(({ gitlab }) => gitlab)
t.test('a stranger\u2019s too, where GitLab says who is who', { timeout: timeoutOf(strangers) }, async (t) => {
  const gitlab = await SlowGitlab.start()
  t.teardown(() => gitlab.stop())
  await playAll(t, { attacks: strangers, ground: { gitlab }, execs: 1 })
})
