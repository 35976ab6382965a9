import t from 'tap'
import { podMemory } from '../../../../../../src/agentk/modules/gitops/render/pod-memory.ts'

const MiB = 1024 * 1024

t.test('what works on commits has half of the pod, what is kept a quarter at worst', async (t) => {
  const small = podMemory(512 * MiB)
  t.strictSame(small, {
    turns: 1,
    programKib: 256 * 1024,
    threadMb: 192,
    outputBytes: 32 * MiB,
    fileBytes: 32 * MiB,
    objectBytes: 32 * MiB,
    manifestBytes: 8 * MiB,
    previewBytes: 32 * MiB,
  })
  t.match(podMemory(2048 * MiB), { turns: 1, programKib: 1024 * 1024, threadMb: 960 })
  t.match(podMemory(4096 * MiB), { turns: 2, programKib: 1024 * 1024, threadMb: 960, outputBytes: 64 * MiB })
  for (const pod of [128, 256, 512, 1024, 2048, 4096].map((mb) => mb * MiB)) {
    const { turns, programKib, threadMb, fileBytes, objectBytes, previewBytes } = podMemory(pod)
    t.ok(2 * previewBytes <= pod / 8, "at worst, previews have half of what is agentk's own")
    const turn = Math.max(programKib * 1024, threadMb * MiB)
    t.ok(turns >= 1 && turns * turn + 2 * (fileBytes + objectBytes) <= (3 / 4) * pod, `${pod / MiB} MiB`)
  }
  t.strictSame(podMemory(0), podMemory(4096 * MiB), 'no limit is known')
  t.strictSame(podMemory(2 ** 64), podMemory(4096 * MiB), 'as the system says that there is none')
})
