import t from 'tap'
import { podMemory } from '../../../src/agentk/modules/gitops/render/pod-memory.ts'
import { mostViewsHeapMb, podShares } from '../../../src/lib/pod-shares.ts'

const MiB = 1024 * 1024

t.test('views and the rest fit the pod', async (t) => {
  t.strictSame(podShares(1024 * MiB), { viewsHeapMb: 384, restBytes: 576 * MiB }, 'as it is deployed')
  t.strictSame(podShares(512 * MiB), { viewsHeapMb: 160, restBytes: 288 * MiB })
  for (const pod of [128, 256, 512, 1000, 1024, 4096].map((mb) => mb * MiB)) {
    const { viewsHeapMb, restBytes } = podShares(pod)
    t.ok(viewsHeapMb * MiB + restBytes < pod, `pod of ${pod / MiB} MiB: ${viewsHeapMb} MiB of heap`)
    t.ok(viewsHeapMb > 0 && viewsHeapMb <= mostViewsHeapMb)
    const { turns, programKib, fileBytes, objectBytes } = podMemory(restBytes)
    const gitops = turns * programKib * 1024 + 2 * (fileBytes + objectBytes)
    t.ok(viewsHeapMb * MiB + gitops <= pod - restBytes / 4, 'beside GitOps a quarter of the rest is left')
  }
})

t.test('without a limit each has the most', async (t) => {
  t.strictSame(podShares(0), { viewsHeapMb: 384, restBytes: 0 })
})
