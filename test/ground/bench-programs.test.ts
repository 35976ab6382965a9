import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { eventually } from '../support/eventually.ts'

/** Programs that a bench has started end with it, even if a time-out ends only the bench itself. */

const module = JSON.stringify(join(import.meta.dirname, '../../bench/support/programs.ts'))
const numbers = { SIGTERM: 15, SIGHUP: 1 }

for (const signal of ['SIGTERM', 'SIGHUP'] as const)
  t.test(signal, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'bench-programs-test-'))
    t.teardown(() => rm(folder, { recursive: true, force: true }))
    const child = join(folder, 'child.mjs')
    await writeFile(child, 'process.send("ready"); setInterval(() => {}, 1000)')
    const bench = join(folder, 'bench.mjs')
    await writeFile(
      bench,
      `import { Programs } from ${module}
      const { pid } = await new Programs().start(${JSON.stringify(child)}, [])
      console.log(pid)`,
    )
    const parent = spawn(process.execPath, [bench], { stdio: ['ignore', 'pipe', 'inherit'] })
    t.teardown(() => parent.kill('SIGKILL'))
    const [said] = await once(parent.stdout, 'data')
    const pid = Number(said)
    t.teardown(() => isThere(pid) && process.kill(pid, 'SIGKILL'))
    parent.kill(signal)
    const [code] = await once(parent, 'exit')
    t.equal(code, 128 + numbers[signal])
    await eventually(() => !isThere(pid))
  })

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
