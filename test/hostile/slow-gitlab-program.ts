import { GitlabDouble } from '../support/gitlab/gitlab-double.ts'
import type { ToldWorld } from './slow-gitlab.ts'

/** A double of a busy GitLab, in a process of its own, which ends with its parent. */

/** duration of each of its answers. ms */
const answerMs = 200

const gitlab = new GitlabDouble()
await gitlab.come()
gitlab.fault = { kind: 'slow', ms: answerMs }
process.on('disconnect', () => process.exit())
process.on('message', (world: ToldWorld) => {
  Object.assign(gitlab.world, world)
  process.send?.('told')
})
process.send?.({ address: gitlab.address, secret: gitlab.secret.toString('base64') })
