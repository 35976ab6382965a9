import { randomBytes } from 'node:crypto'

export const newToken = () => randomBytes(24).toString('base64url')
