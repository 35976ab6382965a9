import { execFile } from 'node:child_process'
import { cp } from 'node:fs/promises'
import { resolve } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'

const bin = resolve(import.meta.dirname, '../../../bin')

t.test('the commands of the package, started in a clone, say what to type there', async (t) => {
  const clone = t.testdir()
  await cp(bin, `${clone}/bin`, { recursive: true })
  for (const program of ['kas', 'agentk']) {
    const started = promisify(execFile)(process.execPath, [`${clone}/bin/${program}.mjs`, '--version'])
    await t.rejects(started, {
      code: 1,
      stderr: `${program}: this is a clone, not the package: npm run -s ${program} -- does the same there.\n`,
    })
  }
})
