import t from 'tap'
import { finding, ranks } from '../../../../../../src/agentk/health/kas/finding.ts'
import {
  type Choice,
  isSameChoice,
  isSameJudgement,
} from '../../../../../../src/agentk/modules/views/store/judgement.ts'

const bare: Choice = { word: 'Healthy', by: 'rules', needs: [], finding: undefined }
const unmounted = (kind: string): Choice => ({
  word: 'Degraded',
  by: 'rules',
  needs: [[kind, 'shop']],
  finding: finding('Degraded', { reason: 'NotMounted', text: 'no such volume', rank: ranks.other }),
})

t.test('a judgement that others may get is another one: each is given anew who gets something else', async (t) => {
  t.notOk(isSameJudgement([unmounted('Event'), bare], [unmounted('PersistentVolumeClaim'), bare]))
  t.ok(isSameJudgement([unmounted('Event'), bare], [unmounted('Event'), bare]))
  t.ok(isSameChoice(unmounted('Event'), unmounted('PersistentVolumeClaim')), 'what one gets says nothing of that')
})
