import { type Attack, over } from '../attack.ts'
import { type Answered, EvilUser, told } from '../stage.ts'

interface Size {
  readonly calls: number
}

export const manyHeaders: Attack<Size> = {
  name: 'many-headers',
  what: 'a workload that answers agentk with 60,000 headers',
  refusal: /^502 .*head/s,
  cheap: { calls: 1 },
  full: { calls: 20 },
  async play(stage, { calls }, signal) {
    const { path, userCredential: credential } = stage.workload
    const user = new EvilUser(stage)
    let last: Answered = { status: 0, body: 'no call was answered' }
    try {
      for (let i = 0; i < calls; i++) last = await user.get(stage.entry, path, { credential, signal })
    } finally {
      user.close()
    }
    return over(told(last))
  },
}
