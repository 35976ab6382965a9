import t from 'tap'
import { programBounds } from '../../../../../../src/agentk/modules/gitops/render/renderer-process.ts'

t.test('programs use half of the memory of the pod together', async (t) => {
  const MiB = 1024 * 1024
  t.strictSame(programBounds(512 * MiB), { programs: 1, maxMemoryKib: 256 * 1024 })
  t.strictSame(programBounds(2048 * MiB), { programs: 1, maxMemoryKib: 1024 * 1024 })
  t.strictSame(programBounds(4096 * MiB), { programs: 2, maxMemoryKib: 1024 * 1024 })
  t.strictSame(programBounds(0), { programs: 2, maxMemoryKib: 1024 * 1024 }, 'no limit is known')
  t.strictSame(
    programBounds(2 ** 64),
    { programs: 2, maxMemoryKib: 1024 * 1024 },
    'as the system says that there is none',
  )
})
