/** Bare bytes, a replica without the agent: carries each request to the one that has it, on one HTTP/2 connection. */
import { connect } from 'node:http2'
import { startBareHttp, windowBytes } from './bare-http.ts'

const { replicasPort } = JSON.parse(process.argv[2] as string) as { replicasPort: number }
const holder = connect(`http://127.0.0.1:${replicasPort}`, { settings: { initialWindowSize: windowBytes } })
holder.once('connect', () => {
  holder.setLocalWindowSize(windowBytes)
  startBareHttp(
    () => holder,
    (httpPort) => process.send?.({ httpPort }),
  )
})
process.on('disconnect', () => process.exit())
