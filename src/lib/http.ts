/**
 * node:http. An `import` of it reads all that it exports, WebSocket too, and for that Node loads the client behind its
 * `fetch`: 3 MiB and 15 ms of each start.
 */
export const http = process.getBuiltinModule('node:http')
