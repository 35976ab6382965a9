import t from 'tap'
import { ProjectChoice } from '../../../../../src/agentk/modules/flux/project-choice.ts'
import { capturedLog } from '../../../../support/captured-log.ts'

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
