import t from 'tap'
import { liveObjectOf } from '../../../../../../src/agentk/modules/gitops/live/live-object.ts'
import {
  digestAnnotation,
  ownerAnnotation,
  pruneAnnotation,
} from '../../../../../../src/agentk/modules/gitops/manifests/annotations.ts'

t.test('marks of 256 KiB are not kept: thousands of objects may have them', async (t) => {
  const names = [ownerAnnotation, digestAnnotation, pruneAnnotation]
  for (const name of names) {
    const of = (value: string) =>
      liveObjectOf({ metadata: { uid: 'u', annotations: { [name]: value } } }, 'agentk-42-7')
    const marks = ({ owner, digest, prune }: ReturnType<typeof of>) =>
      [owner, digest, prune].filter((one) => one !== '')
    t.strictSame(marks(of('x'.repeat(256 * 1024))), ['more than 300 characters'], name)
    t.strictSame(marks(of('42-7')), ['42-7'], name)
  }
})
