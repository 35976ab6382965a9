import { OpsSocket } from '../../../src/kas/servers/ops-socket/ops-socket.ts'
import { claimSocket } from '../../../src/lib/stale-socket.ts'
import { capturedLog } from '../../support/captured-log.ts'

/** A process that starts, stops or claims the socket of its argument, as IPC messages ask. */
const [path = ''] = process.argv.slice(2)
const answers = { '/status': () => ({ name: `process ${process.pid}.` }) }
let socket: OpsSocket | undefined

const steps: Record<string, () => Promise<string>> = {
  async start() {
    socket = new OpsSocket({ answers, log: capturedLog().log }, { path })
    await socket.start()
    return 'listens'
  },
  async stop() {
    await socket?.stop()
    return 'stopped'
  },
  async claim() {
    await claimSocket(path)
    return 'claimed'
  },
}

process.on('disconnect', () => process.exit())
process.on('message', (word: string) => {
  void steps[word]?.().then(
    (done) => process.send?.(done),
    (error: Error) => process.send?.(error.message),
  )
})
process.send?.('ready')
