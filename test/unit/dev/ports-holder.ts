/** Makes two requests for ports at once and sends all the ports. It listens on none of them. */
import { freePorts } from '../../../dev/control-plane/free-ports.ts'

const count = Number(process.argv[2])
const given = await Promise.all([freePorts(count / 2), freePorts(count / 2)])
process.send?.(given.flat())
process.once('disconnect', () => process.exit())
