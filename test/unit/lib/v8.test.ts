import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { flags } from '../../../src/lib/v8.ts'

const run = promisify(execFile)

t.test('V8 knows each flag: one that it does not is only told on stderr', async (t) => {
  const set = async (flag: string) => {
    const { stderr } = await run(process.execPath, ['-e', `v8.setFlagsFromString(${JSON.stringify(flag)})`])
    return stderr
  }
  for (const flag of Object.values(flags).flat()) t.equal(await set(flag), '', flag)
  t.match(await set('--no-such-flag'), /unrecognized/)
})
