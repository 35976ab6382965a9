import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { flags, releaseMemory } from '../../../src/lib/v8.ts'

const run = promisify(execFile)

t.test('V8 knows each flag: one that it does not is only told on stderr', async (t) => {
  const set = async (flag: string) => {
    const { stderr } = await run(process.execPath, ['-e', `v8.setFlagsFromString(${JSON.stringify(flag)})`])
    return stderr
  }
  for (const flag of Object.values(flags).flat()) t.equal(await set(flag), '', flag)
  t.match(await set('--no-such-flag'), /unrecognized/)
})

t.test('what nothing refers to is gone once memory was released', async (t) => {
  const gone = new WeakRef({})
  const kept = { is: 'kept' }
  const still = new WeakRef(kept)
  await new Promise(setImmediate) // a reference lasts as long as the turn that made it
  releaseMemory()
  t.equal(gone.deref(), undefined)
  t.equal(still.deref(), kept)
  t.notOk('gc' in globalThis, 'nothing is left for others')
})
