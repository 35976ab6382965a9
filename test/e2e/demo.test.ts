import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { launch, plainEnv, processesNaming, project, said, signalGroup } from '../support/local-start.ts'

t.jobs = 2 // two demos run at once: each has its own ports, and mostly waits

t.test('a demo whose scenes hold ends with 0, and leaves nothing', { buffered: true }, async (t) => {
  const { exited, output } = launch(t, ['node', 'dev/demo.ts', 'list'], plainEnv)
  t.equal(await exited, 0, output())
  const screen = output()
  const folder = folderOf(screen)
  t.match(screen, /^ +[\d.]+ s {2}it held$/m)
  for (const name of ['kas-0', 'kas-1', 'kas-2']) t.match(screen, new RegExp(`through ${name}[^:]*: 200, `))
  t.match(screen, /\ndemo: ok, 1 scenes\n$/)
  t.notOk(existsSync(folder), 'its folder with its secrets is gone')
  t.same(processesNaming(`${folder}/`), [])
})

t.test('a killed holder; Ctrl-C in the scene after that', { buffered: true }, async (t) => {
  const running = launch(t, ['node', 'dev/demo.ts', 'kill', 'freeze'], plainEnv)
  const { child, exited, output } = running
  await said(running, /SIGSTOP to/)
  t.match(output(), /kill -9 of kas-\d/)
  t.match(output(), /\d+ safe calls: first success \d+ ms after it/)
  t.match(output(), /kas-\d is back/)
  t.match(output(), /^ +[\d.]+ s {2}it held$/m)
  t.notMatch(output(), 'NOT SO')
  signalGroup(child, 'SIGINT')
  t.equal(await exited, 1)
  const folder = folderOf(output())
  t.match(output(), `Logs: ${folder}\n`)
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  t.ok(existsSync(join(folder, 'kas-0.log')), 'the logs of a demo that did not hold stay')
  t.same(processesNaming(`${folder}/`), [], 'the frozen replica too has ended')
})

t.test('a scene that does not exist', async (t) => {
  const { exited, output } = launch(t, ['node', 'dev/demo.ts', 'list', 'nonsense'], plainEnv)
  t.equal(await exited, 2)
  t.match(output(), /^There is no scene nonsense\.\n\nnpm run demo /)
})

/** The demo's folder, as the demo prints it at its beginning. */
function folderOf(screen: string): string {
  const folder = /^files in (\S+)$/m.exec(screen)?.[1] ?? ''
  if (!folder.startsWith(`${project}/.run/demo/`)) throw new Error(`no folder in ${screen}`)
  return folder
}
