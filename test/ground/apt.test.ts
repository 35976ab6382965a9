import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import t, { type Test } from 'tap'
import { AptError } from '../../dev/images/apt.ts'
import { debianPackages } from '../../dev/images/debian.ts'
import { absent } from '../support/absent.ts'
import { eventually } from '../support/eventually.ts'

/** Several processes ask at once for Debian packages in one folder. apt is a script that fails or chooses nothing. */

const isDebian = ['/etc/apt/sources.list.d/debian.sources', '/etc/apt/sources.list'].some(existsSync)
const skip = !isDebian || absent('flock') ? 'needs a Debian, with flock' : false

/** Starts with an apt whose `update` waits for the test and ends with its exit code. */
async function scene(t: Test) {
  const folder = await mkdtemp(join(tmpdir(), 'kas-apt-test-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const [calls, gate] = [join(folder, 'calls'), join(folder, 'gate')]
  execFileSync('mkfifo', [gate])
  const script = `#!/bin/sh
case "$*" in
  *" update") echo update >> ${calls}; read code < ${gate}; echo "E: the mirror's words" >&2; exit "$code" ;;
  *) echo install >> ${calls} ;;
esac
`
  writeFileSync(join(folder, 'apt-get'), script)
  chmodSync(join(folder, 'apt-get'), 0o755)
  const { PATH } = process.env
  process.env.PATH = `${folder}${delimiter}${PATH}`
  t.teardown(() => {
    process.env.PATH = PATH
  })
  return {
    folder,
    calls: () => readFileSync(calls, 'utf8').trim().split('\n'),
    ask: (...names: string[]) => debianPackages(names, 'amd64', folder),
    endUpdate: async (code: number) => {
      const file = await open(gate, 'w') // once apt reads it
      await file.write(`${code}\n`)
      await file.close()
    },
  }
}

/** Waits for this number of child processes: one runs apt, the others wait in `flock`. */
const children = (count: number) =>
  eventually(async () => {
    const found = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ')
    if (found.length !== count) throw new Error(`${found.length} children`)
  })

t.test('lists are fetched once for all who ask, and one choice is made for the same', { skip }, async (t) => {
  const { ask, calls, endUpdate } = await scene(t)
  const asked = [ask('runc'), ask('runc'), ask('git')]
  await children(3)
  await endUpdate(0)
  t.strictSame(await Promise.all(asked), [[], [], []])
  t.strictSame(calls(), ['update', 'install', 'install'], 'chosen and fetched, for each of two')
})

t.test('who waits takes over a failure; who asks later asks the mirror again', { skip }, async (t) => {
  const { ask, calls, endUpdate } = await scene(t)
  const asked = Promise.allSettled([ask('runc'), ask('runc'), ask('git')])
  await children(3)
  await endUpdate(100)
  for (const one of await asked) {
    t.match(one, { status: 'rejected', reason: { message: "apt-get update: E: the mirror's words" } })
    t.ok((one as PromiseRejectedResult).reason instanceof AptError)
  }
  t.strictSame(calls(), ['update'])
  const later = ask('runc')
  await endUpdate(0)
  t.strictSame(await later, [])
})

t.test('a folder that cannot be locked is no machine without Debian', { skip }, async (t) => {
  const { ask, folder } = await scene(t)
  writeFileSync(join(folder, 'flock'), '#!/bin/sh\necho "flock: 3: no locks available" >&2\nexit 71\n')
  chmodSync(join(folder, 'flock'), 0o755)
  const error = await ask('runc').catch((error: Error) => error)
  t.match(error, { message: /is not locked: flock: 3: no locks available$/ })
  t.notOk(error instanceof AptError)
})

t.test('who is killed has the folder no more', { skip }, async (t) => {
  const { ask, calls, endUpdate, folder } = await scene(t)
  const module = JSON.stringify(join(import.meta.dirname, '../../dev/images/debian.ts'))
  const program = `import { debianPackages } from ${module}; await debianPackages(['runc'], 'amd64', ${JSON.stringify(folder)})`
  const other = spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: 'inherit' })
  t.teardown(() => other.kill('SIGKILL'))
  const callsAre = (count: number) =>
    eventually(async () => {
      if (calls().length !== count) throw new Error(`${calls()}`)
    })
  await callsAre(1)
  const asked = ask('runc')
  await children(2)
  other.kill('SIGKILL')
  await endUpdate(100) // apt outlives the process that started it, and locks the folder until then
  await callsAre(2)
  await endUpdate(0)
  t.strictSame(await asked, [])
  t.strictSame(calls().slice(0, 2), ['update', 'update'])
})
