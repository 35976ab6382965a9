import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { launch, plainEnv, processesNaming, project, signalGroup } from '../support/local-start.ts'

t.test('two scenes of the demo: each holds, and nothing is left', async (t) => {
  const { exited, output } = launch(t, ['node', 'dev/demo.ts', 'list', 'kill'], plainEnv)
  const code = await exited
  const screen = output()
  t.equal(code, 0, screen)
  t.equal(screen.match(/^ +[\d.]+ s {2}it held$/gm)?.length, 2)
  for (const name of ['kas-0', 'kas-1', 'kas-2']) t.match(screen, new RegExp(`through ${name}[^:]*: 200, `))
  t.match(screen, /kill -9 of kas-\d/)
  t.match(screen, /\d+ safe calls: first success \d+ ms after it/)
  t.match(screen, /kas-\d is back/)
  t.match(screen, /\ndemo: ok, 2 scenes\n$/)
  t.same(processesNaming(`${project}/.run/demo/`), [])
})

t.test('a scene that does not exist; Ctrl-C', async (t) => {
  const unknown = launch(t, ['node', 'dev/demo.ts', 'list', 'nonsense'], plainEnv)
  t.equal(await unknown.exited, 2)
  t.match(unknown.output(), /^There is no scene nonsense\.\n\nnpm run demo /)

  const { child, exited, output, changed } = launch(t, ['node', 'dev/demo.ts', 'freeze'], plainEnv)
  await new Promise<void>((resolve) => {
    changed.addEventListener('change', () => output().includes('SIGSTOP to') && resolve())
  })
  signalGroup(child, 'SIGINT')
  t.equal(await exited, 1)
  const folder = /Logs: (\S+)/.exec(output())?.[1] ?? ''
  t.match(folder, `${project}/.run/demo/`)
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  t.ok(existsSync(join(folder, 'kas-0.log')), 'the logs of a demo that did not hold stay')
  t.same(processesNaming(`${folder}/`), [], 'the frozen replica too has ended')
})
