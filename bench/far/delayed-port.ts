/** A port in a process of its own, behind which another one of this machine is as far away as it is told. */
import { FarPort } from '../../test/support/far-port.ts'

const { port, roundTripMs } = JSON.parse(process.argv[2] as string) as { port: number; roundTripMs: number }
const far = await FarPort.start(port, roundTripMs)
process.send?.({ port: far.port })
process.on('disconnect', () => process.exit())
