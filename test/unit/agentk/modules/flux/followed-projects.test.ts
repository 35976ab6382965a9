import t from 'tap'
import { ProjectChoice, projectPath } from '../../../../../src/agentk/modules/flux/followed-projects.ts'
import { capturedLog } from '../../../../support/captured-log.ts'

const gitlab = 'https://gitlab.example.com'
const underRoot = 'https://example.com:8443/gitlab/'

const rows: [repository: string, gitlab: string, path: string | undefined][] = [
  ['https://gitlab.example.com/platform/clusters', gitlab, 'platform/clusters'],
  ['https://gitlab.example.com/platform/clusters.git', gitlab, 'platform/clusters'],
  ['https://gitlab.example.com/platform/clusters/', gitlab, 'platform/clusters'],
  ['https://gitlab.example.com/a/b/c/d.git', gitlab, 'a/b/c/d'],
  ['https://GitLab.Example.com:443/a/b.git', gitlab, 'a/b'],
  ['https://gitlab.example.com:8443/a/b', gitlab, 'a/b'],
  ['http://gitlab.example.com/a/b', gitlab, 'a/b'],
  ['https://user:secret@gitlab.example.com/a/b.git', gitlab, 'a/b'],
  ['ssh://git@gitlab.example.com/a/b.git', gitlab, 'a/b'],
  ['ssh://git@GITLAB.example.com:2222/a/b', gitlab, 'a/b'],
  ['ssh://git@[::1]:2222/a/b', 'http://[::1]:8080', 'a/b'],
  ['https://gitlab.example.com/a/b.github.io', gitlab, 'a/b.github.io'],
  ['https://gitlab.example.com/a%2Db/c', gitlab, 'a-b/c'],
  // GitLab has a relative root
  ['https://example.com/gitlab/a/b.git', underRoot, 'a/b'],
  ['https://example.com:8443/gitlab/a/b', underRoot, 'a/b'],
  ['ssh://git@example.com:2222/a/b.git', underRoot, 'a/b'],
  ['ssh://git@example.com/gitlab/b.git', underRoot, 'gitlab/b'],
  ['https://example.com/gitlabs/a/b', underRoot, undefined],
  ['https://example.com/a/b', underRoot, undefined],
  // another server, not this GitLab
  ['https://github.com/a/b', gitlab, undefined],
  ['https://gitlab.example.com.evil.org/a/b', gitlab, undefined],
  ['https://other.gitlab.example.com/a/b', gitlab, undefined],
  ['https://gitlab.example.com/a', gitlab, undefined],
  ['https://gitlab.example.com/', gitlab, undefined],
  ['https://gitlab.example.com/a//b', gitlab, undefined],
  ['https://gitlab.example.com/%zz/b', gitlab, undefined],
  ['git@gitlab.example.com:a/b.git', gitlab, undefined],
  ['file://gitlab.example.com/a/b', gitlab, undefined],
  ['', gitlab, undefined],
  ['https://gitlab.example.com/a/b', '', undefined],
  ['https://gitlab.example.com/a/b', 'x', undefined],
]

t.test('the full path of a project, from the URL of a GitRepository', async (t) => {
  for (const [repository, external, path] of rows) t.equal(projectPath(repository, external), path, repository)
})

const named = (...projects: string[]) => projects.map((project, i) => ({ object: `GitRepository apps/${i}`, project }))

t.test('what is followed already stays when there are too many', async (t) => {
  const { log, lines } = capturedLog()
  const choice = new ProjectChoice({ log }, { maxProjects: 3 })
  t.strictSame(choice.choose(named('m/b', 'm/a', 'm/b')), ['m/a', 'm/b'])
  t.strictSame(lines, [])
  t.strictSame(choice.choose(named('a/1', 'a/2', 'a/3', 'm/a', 'm/b')), ['a/1', 'm/a', 'm/b'])
  t.strictSame(choice.choose(named('a/0', 'a/1', 'a/2', 'a/3', 'm/a', 'm/b')), ['a/1', 'm/a', 'm/b'])
  t.match(lines, [{ level: 'warn', count: 5, msg: 'Too many projects, some are not followed' }])
  t.equal(lines.length, 1, 'told once')
  t.strictSame(choice.choose(named('a/0', 'a/2', 'm/b')), ['a/0', 'a/2', 'm/b'], 'what is gone makes room')
  choice.choose(named('a/0', 'a/1', 'a/2', 'm/b'))
  t.equal(lines.length, 2, 'full again')
})

t.test('all together they fit into one message', async (t) => {
  const { log } = capturedLog()
  const choice = new ProjectChoice({ log }, { maxBytes: 3 * 18 })
  t.strictSame(choice.choose(named('z/23456789', 'y/23456789')), ['y/23456789', 'z/23456789'])
  const all = choice.choose(named('a/ééé', 'b/23456789', 'y/23456789', 'z/23456789'))
  t.strictSame(all, ['a/ééé', 'y/23456789', 'z/23456789'])
})

t.test('a path that is too long is left out, told once for each object', async (t) => {
  const { log, lines } = capturedLog()
  const choice = new ProjectChoice({ log })
  const [longest, tooLong] = [`a/${'x'.repeat(255)}`, `a/${'x'.repeat(256)}`]
  const deepest = `${'x'.repeat(99)}/`.repeat(10).slice(0, -1)
  for (const _ of [1, 2]) t.strictSame(choice.choose(named(longest, tooLong, deepest)), [longest, deepest])
  t.match(lines, [{ level: 'warn', object: 'GitRepository apps/1' }])
  t.equal(lines.length, 1)
  t.strictSame(choice.choose(named('a/b', tooLong, `${deepest}/xx`)), ['a/b'])
  t.match(lines[1], { object: 'GitRepository apps/2' })
  choice.choose(named('a/b'))
  choice.choose(named('a/b', tooLong))
  t.equal(lines.length, 3, 'it is another one then')
})
